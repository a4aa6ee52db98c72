"""A cluster started for the occasion is closed to everyone else."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="the package ray is not installed")

# In a process of its own, because Ray reads its environment once.
LOOK = """
import json, os, stat
import ray
import psutil  # that comes with Ray, which has to be imported first
from protoreplay.core.ray_session import ray_session

with ray_session(None, 1):
    children = psutil.Process().children(recursive=True)
    family = [psutil.Process(), *children]
    heard = {
        c.laddr.ip for p in family for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN
    }
    token = os.environ["RAY_AUTH_TOKEN_PATH"]
    folder = os.path.dirname(token)
    modes = [stat.S_IMODE(os.stat(path).st_mode) for path in (token, folder)]
_, alive = psutil.wait_procs(children, timeout=60)
left = [name for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH") if name in os.environ]
print(json.dumps([sorted(heard), modes, os.path.exists(folder), len(alive), left]))
"""


def test_it_listens_to_this_machine_alone_with_a_token_and_leaves_nothing():
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    heard, modes, folder, alive, left = json.loads(done.stdout.splitlines()[-1])
    assert heard
    assert set(heard) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert (modes, folder, alive, left) == ([0o600, 0o700], False, 0, [])


DRIVE = """
import json, sys, time
import psutil
from protoreplay.core.ray_session import ray_session
from pathlib import Path
import os

with ray_session(None, 1):
    family = [child.pid for child in psutil.Process().children(recursive=True)]
    print(json.dumps([family, os.path.dirname(os.environ["RAY_AUTH_TOKEN_PATH"])]), flush=True)
    time.sleep(600)
"""


def test_a_killed_driver_leaves_no_process_behind():
    driver = subprocess.Popen([sys.executable, "-c", "import ray\n" + DRIVE], stdout=subprocess.PIPE, text=True)
    try:
        family, folder = json.loads(driver.stdout.readline())
    finally:
        driver.kill()
        driver.communicate(timeout=60)
    assert len(family) > 2
    try:
        until = time.monotonic() + 120
        while any(alive(pid) for pid in family):
            assert time.monotonic() < until, [alive(pid) for pid in family]
            time.sleep(0.1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def alive(pid: int) -> str:
    """What a process is called with, or nothing once it is dead."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return "" if state == "Z" else Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:200] or str(pid)
    except OSError:
        return ""

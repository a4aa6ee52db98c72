"""A cluster started for the occasion is closed to everyone else."""

import json
import subprocess
import sys

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

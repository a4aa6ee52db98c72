import secrets
import subprocess
import sys
import time

import pytest

from protoreplay.core.errors import UserError
from protoreplay.data import catalog
from protoreplay.experiments.grid import execute_grid
from protoreplay.experiments.spec import resolve_grid
from tests.experiments.grids import Bench, results

pytest.importorskip("ray", reason="the package ray is not installed")

from protoreplay.experiments.ray_cluster import Cluster, _has

METHODS, SETTINGS = ["sgd", "nearest-mean"], {"tasks": 3, "epochs": 2}


# Two nodes, each with room for one run: the first has the datasets in its cache, the second has none, and its runs have
# their temporary folders in `empty`; it can be held still, let go on and lost.
# In a process of their own, because Ray reads its environment once.
NODES = """
import sys
from contextlib import suppress

from ray.cluster_utils import Cluster
from psutil import NoSuchProcess, Process  # that comes with Ray

full, empty = sys.argv[1:]
data = {"PROTOREPLAY_DATA": full}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "env_vars": data, "include_dashboard": False})
second = cluster.add_node(num_cpus=1, env_vars={"PROTOREPLAY_DATA": empty, "TMPDIR": empty})
raylet = Process(second.all_processes["raylet"][0].process.pid)
print(cluster.address, flush=True)
held = []


def each(do):
    for process in held:
        with suppress(NoSuchProcess):
            do(process)


for wish in map(str.strip, sys.stdin):
    if wish == "hold":
        held = raylet.children(recursive=True)
        each(Process.suspend)
    elif wish == "free":
        each(Process.resume)
    elif wish == "lose":
        cluster.remove_node(second, allow_graceful=False)
        each(Process.kill)
    print(wish, flush=True)
cluster.shutdown()
"""


@pytest.fixture
def nodes(tmp_path, monkeypatch, small_cache):
    token = tmp_path / "token"  # of our own: nobody else gets in, and the user's is left alone
    token.write_text(secrets.token_hex(32))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    (tmp_path / "empty").mkdir()
    words = [sys.executable, "-c", NODES, str(small_cache), str(tmp_path / "empty")]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield process
    process.communicate(timeout=120)


def next_line(process):
    line = process.stdout.readline().strip()
    assert line, process.stderr.read()
    return line


def wish(nodes, what):
    nodes.stdin.write(f"{what}\n")
    nodes.stdin.flush()
    assert next_line(nodes) == what


def bench(place, protocol, methods, seeds, settings, address):
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    words += ["--engine", "ray", "--address", address]
    return Bench(place, protocol, "--methods", ",".join(methods), "--seeds", str(seeds), *words)


def wait(process, until):
    while not until():
        assert process.poll() is None, process.communicate(timeout=300)[1]
        time.sleep(0.01)


def test_counts_are_those_of_the_local_engine_also_after_a_node_is_lost(tmp_path, nodes):
    execute_grid(resolve_grid("split-cifar10", METHODS, [0, 1], SETTINGS), tmp_path / "local")
    address = next_line(nodes)
    on_ray = bench(tmp_path / "a", "split-cifar10", METHODS, 2, SETTINGS, address)
    process = on_ray.start()
    longer = {"tasks": 4, "epochs": 40, "samples": 10}
    execute_grid(resolve_grid("split-digits", ["vpr-paper"], [0, 1, 2], longer), tmp_path / "longer")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert out.startswith("method ")
    assert results(on_ray.root) == results(tmp_path / "local")

    on_ray = bench(tmp_path / "b", "split-digits", ["vpr-paper"], 3, longer, address)
    process = on_ray.start()

    def at_a_run():
        # The checkpoint of a run is there from its first task to its last.
        return bool(list(tmp_path.glob("empty/protoreplay-*/run/checkpoint.safetensors")))

    while True:
        wait(process, at_a_run)
        wish(nodes, "hold")
        if at_a_run():  # still: it was not finished before it was held
            break
        wish(nodes, "free")
    wait(process, on_ray.finished)
    wish(nodes, "lose")
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert "once more" in err
    assert results(on_ray.root) == results(tmp_path / "longer")


@pytest.mark.parametrize(
    ("address", "why"),
    [("127.0.0.1:1", "Connection refused"), ("somewhere", "write auto, HOST:PORT or ray://HOST:PORT")],
)
def test_a_cluster_that_is_not_there_is_one_line(tmp_path, address, why):
    with pytest.raises(UserError, match=f"no Ray cluster at {address}: .*{why}"):
        execute_grid(resolve_grid("split-digits", ["sgd"], [0], {}), tmp_path, engine=Cluster(address, 1, 1.0, 0.0))
    assert list(tmp_path.iterdir()) == []


def test_a_run_needs_something_of_the_cluster():
    with pytest.raises(UserError, match="a run needs --cpus-per-run or --gpus-per-run above 0"):
        Cluster(None, 1, 0.0, 0.0)


def test_a_node_uses_its_own_data_only_if_it_is_the_same_and_whole(tmp_path, small_cache, monkeypatch):
    same = tuple(sorted(catalog.dataset_file("cifar10").read().digests.items()))
    other = tuple((key, "0" * 64) for key, _ in same)
    found = _has.__wrapped__  # as in a new process
    assert found("cifar10", same)
    assert not found("cifar10", other)
    assert not found("mnist", same)
    assert not found("photos", ())
    monkeypatch.setenv("PROTOREPLAY_DATA", str(tmp_path))
    assert not found("cifar10", same)
    damaged = bytearray((small_cache / "cifar10.safetensors").read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "cifar10.safetensors").write_bytes(damaged)
    assert not found("cifar10", same)

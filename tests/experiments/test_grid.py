import contextlib
import functools
import json
import math

import pytest

from protoreplay.core.errors import UserError
from protoreplay.experiments import grid_queue
from protoreplay.experiments.checkpoint import Checkpoint
from protoreplay.experiments.grid import RunsFailedError, execute_grid
from protoreplay.experiments.grid_queue import GridQueue, RunOutcome, default_runs_folder, run_path
from protoreplay.experiments.run import execute
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.experiments.run_progress import GridProgress
from protoreplay.experiments.spec import RunSpec, resolve_grid
from protoreplay.methods.nearest_mean import NearestMean
from protoreplay.methods.sgd import SGD
from protoreplay.streams import protocols
from tests.experiments.grids import results

METHODS, SETTINGS = ["nearest-mean", "sgd"], {"tasks": 2, "epochs": 1}


@pytest.fixture
def specs():
    return resolve_grid("split-digits", METHODS, [0, 1], SETTINGS)


class Tallies(GridProgress):
    def __init__(self):
        self.seen, self.said = [], []

    def grid(self, runs, finished):
        self.seen.append((runs, finished))

    def tally(self, news, finished, failed, seconds_left):
        self.seen.append((news, finished, failed))

    def say(self, text):
        self.said.append(text)


def test_a_failing_run_is_recorded_does_not_stop_the_others_and_is_tried_again(tmp_path, specs, monkeypatch):
    learn = SGD.learn

    def failing(self, task, report):
        if self.context.seed == 0 and task.position == 2:
            raise ZeroDivisionError("a bug\nof two lines")
        learn(self, task, report)

    monkeypatch.setattr(SGD, "learn", failing)
    with pytest.raises(
        RunsFailedError, match=r"1 run failed: see its error\.txt; the same command tries again"
    ) as info:
        execute_grid(specs, tmp_path / "grid")
    assert [(failure.spec.name, failure.error) for failure in info.value.failures] == [
        ("sgd,epochs=1,tasks=2 seed 0", "ZeroDivisionError: a bug of two lines")
    ]
    bad = run_path(tmp_path / "grid", specs[1])
    assert "in failing" in (bad / "error.txt").read_text()
    assert sum(RunFolder(run_path(tmp_path / "grid", spec)).finished() for spec in specs) == 3
    monkeypatch.setattr(SGD, "learn", learn)
    execute_grid(specs, tmp_path / "grid")
    execute_grid(specs, tmp_path / "whole")
    assert results(tmp_path / "grid") == results(tmp_path / "whole")


def test_a_run_that_fails_before_it_starts_is_recorded_and_its_folder_accepted(tmp_path, specs, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(protocols.Stream, "shots", lambda self: 1 / 0)
        with pytest.raises(RunsFailedError, match="4 runs failed: see their"):
            execute_grid(specs, tmp_path)
    assert len(list(tmp_path.rglob("error.txt"))) == 4
    execute_grid(specs, tmp_path)
    assert not list(tmp_path.rglob("error.txt"))


def test_what_another_process_is_at_is_left_to_it_and_looked_at_again(tmp_path, specs, monkeypatch):
    monkeypatch.setattr(grid_queue, "LOOK_AGAIN_SECONDS", 0.01)
    elsewhere = contextlib.ExitStack()
    elsewhere.enter_context(RunFolder(run_path(tmp_path, specs[0])).locked())
    elsewhere.enter_context(RunFolder(run_path(tmp_path, specs[3])).locked())

    class LetsGo(Tallies):
        def tally(self, news, finished, failed, seconds_left):
            super().tally(news, finished, failed, seconds_left)
            if finished == 2:
                elsewhere.close()
                execute(specs[3], run_path(tmp_path, specs[3]))

    board = LetsGo()
    execute_grid(specs, tmp_path, board)
    assert [news for news, *_ in board.seen[1:3]] == [f"{specs[number].name} is finished" for number in (1, 2)]
    assert board.seen[-1][1:] == (4, 0)


def test_a_run_finished_by_another_process_just_before_our_lock_is_not_done_again(tmp_path, specs, monkeypatch):
    path, locked, learned = tmp_path / "run", RunFolder.locked, []

    def late(self):
        monkeypatch.setattr(RunFolder, "locked", locked)
        execute(specs[0], path)
        monkeypatch.setattr(NearestMean, "learn", lambda *args: learned.append(args))
        return locked(self)

    monkeypatch.setattr(RunFolder, "locked", late)
    assert execute(specs[0], path) == RunFolder(path).counts()
    assert not learned
    assert not (path / ".lock").exists()


def test_a_run_killed_between_its_last_result_and_its_end_is_tidied_up(tmp_path, specs, monkeypatch):
    monkeypatch.setattr("protoreplay.experiments.run.CHECKPOINT_SECONDS", 0.0)
    execute_grid(specs, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "clean", lambda self: None)
        execute_grid(specs, tmp_path / "killed")
    assert list((tmp_path / "killed").rglob("checkpoint.safetensors"))
    execute(specs[0], run_path(tmp_path / "killed", specs[0]))
    execute_grid(specs[1:], tmp_path / "killed")
    assert results(tmp_path / "killed") == results(tmp_path / "whole")


def test_a_run_that_takes_its_process_down_fails_after_three_times(tmp_path, specs):
    board = Tallies()
    left = GridQueue(specs, tmp_path, board)
    for _ in range(3):
        assert left.take() == 0
        left.settle(0, RunOutcome("lost", " (exit code -9)"))
    assert board.said == [f"{specs[0].name}: the process that did it died (exit code -9); once more"] * 2
    error = "the process that did it died 3 times (exit code -9)"
    assert [failure.error for failure in left.failures] == [error]
    assert (run_path(tmp_path, specs[0]) / "error.txt").read_text() == f"{error}\n"
    assert left.take() == 1


def test_time_left_is_by_variant(tmp_path, specs, monkeypatch):
    seconds = {"nearest-mean,tasks=2": 2.0, "sgd,epochs=1,tasks=2": 10.0}
    monkeypatch.setattr(
        RunFolder, "events", lambda self: [{"learn_seconds": seconds[self.path.parent.name], "test_seconds": 0.5}]
    )
    left = GridQueue(specs, tmp_path, GridProgress())
    assert math.isnan(left._seconds_left())
    for _ in range(2):
        left.settle(left.take(), RunOutcome("finished"))
    assert left._seconds_left() == 13.0
    left.take(), left.take()
    assert left._seconds_left() == 6.5


def test_checking_a_grid_makes_one_stream_for_all_seeds(tmp_path, monkeypatch):
    made = []
    stream = protocols.Protocol.stream
    monkeypatch.setattr(protocols.Protocol, "stream", lambda *args: made.append(args) or stream(*args))
    specs = resolve_grid("split-digits", METHODS, list(range(50)), SETTINGS)
    execute_grid(specs, tmp_path, engine=lambda work: None)
    assert len(made) == 1


def test_varied_settings_make_a_grid():
    specs = resolve_grid(
        "split-digits", ["vpr-paper", "sgd"], [0, 1], {"tasks": 2}, vary={"tau": ["1", "2"], "shots": ["5", "6"]}
    )
    assert [spec.variant for spec in specs if spec.seed == 1] == [
        "vpr-paper,shots=5,tasks=2,tau=1",
        "sgd,shots=5,tasks=2",
        "vpr-paper,shots=6,tasks=2,tau=1",
        "sgd,shots=6,tasks=2",
        "vpr-paper,shots=5,tasks=2,tau=2",
        "vpr-paper,shots=6,tasks=2,tau=2",
    ]
    assert [spec.seed for spec in specs] == [0] * 6 + [1] * 6
    with pytest.raises(UserError, match="tau is both set and varied"):
        resolve_grid("split-digits", ["vpr-paper"], [0], {"tau": 1}, vary={"tau": ["1"]})


def test_specs_go_to_other_processes_with_one_protocol_for_all():
    specs = resolve_grid("split:photos", ["sgd"], [0, 1], {})
    find_protocol = functools.cache(protocols.get_protocol)
    there = [RunSpec.from_plain(json.loads(json.dumps(spec.to_plain())), find_protocol) for spec in specs]
    assert there[0].protocol is there[1].protocol
    assert there == specs


def test_a_run_from_elsewhere_replaces_what_is_here(tmp_path, specs):
    execute(specs[1], tmp_path / "there")
    folder = RunFolder(tmp_path / "in_this_process")
    with folder.locked():
        folder.start(specs[0].config(specs[0].stream()), [])
        folder.save_checkpoint(Checkpoint(1))
        folder.adopt(RunFolder(tmp_path / "there").contents())
    assert results(tmp_path / "in_this_process") == results(tmp_path / "there")
    assert (tmp_path / "in_this_process/events.jsonl").read_bytes() == (tmp_path / "there/events.jsonl").read_bytes()


def test_the_device_is_a_fact_and_not_another_run(tmp_path, specs):
    execute(specs[0], tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["versions"]["device"] == "cpu"
    for device in ("cuda", None):  # finished elsewhere, or before devices were recorded
        config["versions"]["device"] = device
        (tmp_path / "config.json").write_text(
            json.dumps(config | {"versions": {k: v for k, v in config["versions"].items() if v}})
        )
        execute(specs[0], tmp_path)
        assert RunFolder(tmp_path).config().versions["device"] == (device or "cpu")


def test_where_runs_live_unless_the_user_says_otherwise():
    assert default_runs_folder("split-digits").as_posix() == "runs/split-digits"
    assert default_runs_folder("split:my photos", "ablations").as_posix() == "runs/ablations/split_my_photos"
    assert default_runs_folder("split-digits", "tune").as_posix() == "runs/tune/split-digits"

"""A checkpoint that is not as it was written changes no result and takes nothing down.

`PROTOREPLAY_FLIPS=all pytest tests/experiments/test_checkpoint.py` flips every bit of one, and not a sample.
"""

import os
import random

import pytest
import safetensors.torch
import torch

from protoreplay.experiments import checkpoint
from protoreplay.experiments.checkpoint import Checkpoint, DamagedCheckpointError, check_state
from protoreplay.experiments.run import execute
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.experiments.run_progress import RunProgress
from protoreplay.experiments.spec import resolve
from protoreplay.methods.registry import METHODS
from protoreplay.testing import Subject
from tests.experiments.test_run import StopError, StopsAt, files
from tests.methods.test_contract import QUICK

FLIPS = os.environ.get("PROTOREPLAY_FLIPS", "150")


def small():
    """With Adam, whose moments are a part of the checkpoint."""
    return resolve("split-digits", "replay", 0, {"tasks": 3, "epochs": 2, "shots": 3})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    execute(small(), path)
    return files(path)


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """The folder of a run that was stopped in its second task."""
    monkeypatch.setattr("protoreplay.experiments.run.CHECKPOINT_SECONDS", 0.0)
    with pytest.raises(StopError):
        execute(small(), tmp_path / "run", StopsAt(2, 1))
    return RunFolder(tmp_path / "run")


class Listener(RunProgress):
    def __init__(self):
        self.warned, self.began = [], []

    def warn(self, line):
        self.warned.append(line)

    def begin(self, name, tasks, done):
        self.began.append(done)


def continued(folder):
    """What is said, and after which task it goes on."""
    listener = Listener()
    execute(small(), folder.path, listener)
    return listener.warned, listener.began


def test_an_unbroken_one_is_continued(stopped, whole):
    assert continued(stopped) == ([], [1])
    assert files(stopped.path) == whole


def same(one, other):
    return (
        (one.position, one.counts, one.answers) == (other.position, other.counts, other.answers)
        and one.state.keys() == other.state.keys()
        and all(torch.equal(one.state[name], other.state[name]) for name in one.state)
    )


def test_every_flipped_bit_is_noticed_or_changes_nothing(stopped):
    content = stopped.checkpoint.read_bytes()
    good = checkpoint.checkpoint_from_bytes(content, "it")
    header = 8 + int.from_bytes(content[:8], "little")
    if FLIPS == "all":
        places = list(range(8 * len(content)))
    else:  # in the header and in the tensors alike
        chance = random.Random(0)
        half = int(FLIPS) // 2
        places = [chance.randrange(8 * header) for _ in range(half)]
        places += [chance.randrange(8 * header, 8 * len(content)) for _ in range(half)]
    lines = []
    for place in places:
        spoilt = bytearray(content)
        spoilt[place // 8] ^= 1 << place % 8
        try:
            found = checkpoint.checkpoint_from_bytes(bytes(spoilt), "it")
        except DamagedCheckpointError as error:
            lines.append(str(error))
        else:
            assert same(found, good), place
    print(f"{len(places)} flips, {len(lines)} noticed, the others changed nothing")
    assert len(lines) > 0.9 * len(places)
    assert all(line.startswith("it is damaged (") and line.splitlines() == [line] for line in lines)


@pytest.mark.parametrize("file", ["checkpoint.safetensors", "events.jsonl", "shots.json"])
def test_a_damaged_file_is_named_and_the_run_starts_over_with_the_same_result(stopped, whole, file):
    path = stopped.path / file
    content = bytearray(path.read_bytes())
    content[-len(content) // 3] ^= 0x10 if file != "events.jsonl" else 0x80
    path.write_bytes(content)
    warned, began = continued(stopped)
    assert began == [0]
    if file != "shots.json":
        assert len(warned) == 1
        assert file in warned[0]
        assert warned[0].endswith(": the run starts over")
    assert files(stopped.path) == whole


def forged(change):
    """The file with other tensors, and digests that are right."""

    def forge(folder):
        saved = folder.resume()
        state = dict(saved.state)
        change(state)
        folder.save_checkpoint(Checkpoint(saved.position, saved.counts, state, saved.answers))

    return forge


def first(state, ending):
    return next(name for name in sorted(state) if name.endswith(ending))


def _smaller_moment(state):
    state[first(state, "exp_avg")] = torch.zeros(1)


def _no_moment(state):
    del state[first(state, "exp_avg_sq")]


def _other_kind(state):
    state["classes"] = state["classes"].float()


def _wider(state):
    name = first(state, "head.weight")
    state[name] = torch.cat([state[name], state[name]], 1)


def _one_more(state):
    state["network.extra"] = torch.zeros(3)


def _no_class(state):
    state["classes"] = torch.tensor([0, 1, 99])


@pytest.mark.parametrize("change", [_smaller_moment, _no_moment, _other_kind, _wider, _one_more, _no_class])
def test_tensors_that_do_not_go_with_the_method_are_refused_before_they_are_loaded(stopped, whole, change):
    """A smaller tensor of the optimiser took the whole process down."""
    forged(change)(stopped)
    warned, began = continued(stopped)
    assert (len(warned), began) == (1, [0])
    assert "checkpoint.safetensors is damaged (" in warned[0]
    assert files(stopped.path) == whole


def test_counts_of_other_tasks_are_refused(stopped, whole):
    saved = stopped.resume()
    stopped.save_checkpoint(Checkpoint(10**9, saved.counts, saved.state, saved.answers))
    assert continued(stopped)[1] == [0]
    assert files(stopped.path) == whole


@pytest.mark.parametrize("name", METHODS.names())
def test_what_methods_carry_goes_with_them_as_they_are_made(name):
    fields = METHODS.get(name).method.Config.model_fields
    subject = Subject.of(name, {key: value for key, value in QUICK.items() if key in fields})
    for tasks in (1, 2):
        check_state(subject.build(), subject.taught(tasks=tasks).state(), "it")


def test_the_file_of_an_earlier_version_is_not_continued(stopped, whole):
    saved = stopped.resume()
    stopped.checkpoint.write_bytes(safetensors.torch.save(dict(saved.state), {"position": "1", "counts": "[]"}))
    warned, began = continued(stopped)
    assert warned == [f"{stopped.checkpoint} is damaged (it has no digests): the run starts over"]
    assert began == [0]
    assert files(stopped.path) == whole

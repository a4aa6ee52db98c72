import numpy as np
import pytest
import safetensors.numpy
import torch

from protoreplay import make_method, make_stream
from protoreplay.core.errors import UserError
from protoreplay.experiments import snapshots as kept
from protoreplay.experiments.grid import execute_grid
from protoreplay.experiments.run import execute
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.experiments.run_progress import RunProgress
from protoreplay.experiments.spec import resolve, resolve_grid

QUICK = {
    "vpr": {"tasks": 4, "filters": 20, "latent": 12},
    "vpr-paper": {"tasks": 4, "epochs": 3, "dim": 8, "samples": 4},
}


class StopError(Exception):
    pass


class StopsAfter(RunProgress):
    def __init__(self, task):
        self.at = task

    def task(self, position, accuracy, seconds):
        if position == self.at:
            raise StopError


def spec(method="vpr", keep=True):
    return resolve("split-digits", method, 0, QUICK[method], keep=keep)


def snapshots(path):
    return {file.name: file.read_bytes() for file in sorted((path / "prototypes").iterdir())}


@pytest.mark.parametrize("method", QUICK)
def test_a_snapshot_is_what_the_method_knew_then(tmp_path, method):
    counts = execute(spec(method), tmp_path)
    learner = make_method(
        method,
        stream := make_stream("split-digits", tasks=4),
        **{k: v for k, v in QUICK[method].items() if k != "tasks"},
    )
    loaded = kept.load_snapshots(RunFolder(tmp_path))
    assert len(loaded) == 4
    for task, snapshot in zip(stream, loaded, strict=True):
        learner.learn(task)
        latent = learner.latent()
        np.testing.assert_array_equal(snapshot.mean, latent.mean.numpy())
        np.testing.assert_array_equal(snapshot.variance, latent.variance.numpy())
        assert (snapshot.variance > 0).all()
        assert set(snapshot.classes) == set(learner.classes)
        right = sum(count.correct for count in counts if count.trained == task.position)
        assert (snapshot.predicted == snapshot.labels).sum() == right
    assert [len(snapshot.images) > 0 for snapshot in loaded] == [True, False, True, True]
    assert set(loaded[-1].image_labels) == {0, 1, 2, 3, 4}
    first = stream.test_set(1)[0][stream.test_set(1)[1] == 0][:1]
    with torch.no_grad():
        mean = learner.latent().means(learner.embed(first))[0].numpy()
    np.testing.assert_allclose(loaded[-1].images[loaded[-1].image_labels == 0][0], mean, rtol=1e-4, atol=1e-4)
    assert [np.bincount(snapshot.shot_labels).tolist() for snapshot in loaded] == [[10] * 2, [], [10] * 4, [10] * 5]
    first = stream.task(1)
    with torch.no_grad():
        means = learner.latent().means(learner.embed(first.images[first.labels == 0])).numpy()
    np.testing.assert_allclose(loaded[-1].shots[:10], means, rtol=1e-4, atol=1e-4)


def test_keeping_changes_no_result_and_survives_a_stop(tmp_path):
    assert execute(spec(keep=False), tmp_path / "plain") == execute(spec(), tmp_path / "whole")
    with pytest.raises(StopError):
        execute(spec(), tmp_path / "cut", StopsAfter(3))
    execute(spec(), tmp_path / "cut")
    assert snapshots(tmp_path / "cut") == snapshots(tmp_path / "whole")


def test_a_run_begun_without_keeping_starts_over(tmp_path):
    with pytest.raises(StopError):
        execute(spec(keep=False), tmp_path, StopsAfter(3))
    execute(spec(), tmp_path)
    assert len(kept.load_snapshots(RunFolder(tmp_path))) == 4


def test_a_finished_run_without_prototypes_is_refused(tmp_path):
    specs = resolve_grid("split-digits", ["vpr"], [0], QUICK["vpr"])
    execute_grid(specs, tmp_path)
    with pytest.raises(UserError, match="is finished and kept no prototypes: choose another --out"):
        execute_grid(resolve_grid("split-digits", ["vpr"], [0], QUICK["vpr"], keep=True), tmp_path)


def test_methods_without_prototypes_run_as_ever_beside_others():
    one, other = resolve_grid("split-digits", ["sgd", "vpr"], [0], {}, keep=True)
    assert (one.keep, other.keep) == (False, True)
    with pytest.raises(UserError, match="sgd: no prototypes to keep; vpr and vpr-paper have some"):
        resolve_grid("split-digits", ["sgd"], [0], {}, keep=True)


def test_few_answers_are_kept_of_many(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "ANSWERS", 40)
    monkeypatch.setattr(kept, "MAPPED", 10)
    execute(spec(), tmp_path)
    last = kept.load_snapshots(RunFolder(tmp_path))[-1]
    assert np.bincount(last.tested)[1:].tolist() == [10] * 4
    assert np.bincount(last.image_labels).tolist() == [2] * 5


def test_what_a_run_elsewhere_kept_is_taken_over(tmp_path):
    execute(spec(), tmp_path / "there")
    here = RunFolder(tmp_path / "here")
    with here.locked():
        here.adopt(RunFolder(tmp_path / "there").contents())
    assert snapshots(tmp_path / "here") == snapshots(tmp_path / "there")


def test_snapshots_that_are_not_as_they_were_written_are_refused(tmp_path):
    execute(spec("vpr"), tmp_path)
    path = tmp_path / "prototypes" / "task-002.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"task-002\.safetensors is damaged: do the run again"):
        kept.load_snapshots(RunFolder(tmp_path))
    # One of an earlier version has no digests; that its arrays go together is looked at all the same.
    arrays = safetensors.numpy.load((tmp_path / "prototypes" / "task-001.safetensors").read_bytes())
    path.write_bytes(safetensors.numpy.save(arrays))
    assert len(kept.load_snapshots(RunFolder(tmp_path))) == 4
    path.write_bytes(safetensors.numpy.save({**arrays, "classes": arrays["classes"][:1]}))
    with pytest.raises(UserError, match=r"task-002\.safetensors is damaged"):
        kept.load_snapshots(RunFolder(tmp_path))

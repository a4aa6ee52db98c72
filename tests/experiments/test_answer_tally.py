import numpy as np
import pytest

from protoreplay.experiments.answer_tally import AnswerTally
from protoreplay.experiments.run import EmbeddedTestSets, evaluate, execute
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.experiments.spec import resolve
from protoreplay.methods.registry import METHODS, make_method
from protoreplay.metrics import answer_metrics as answers
from protoreplay.streams.protocols import make_stream


@pytest.fixture(scope="module")
def stream():
    return make_stream("split-digits", tasks=2, shots=2, test_images=3)


@pytest.mark.parametrize("name", list(METHODS))
def test_what_all_batches_need_is_computed_once_per_task(name, stream, monkeypatch):
    fields = METHODS.get(name).method.Config.model_fields
    quick = {"epochs": 1, "first_epochs": 1, "max_steps": 1, "steps": 1, "samples": 2, "filters": 32}
    method = make_method(name, stream, **{key: value for key, value in quick.items() if key in fields})
    made, embedded = [], []
    classifier, features = type(method)._classifier, type(method)._features
    monkeypatch.setattr(type(method), "_classifier", lambda self: made.append(1) or classifier(self))
    monkeypatch.setattr(type(method), "_features", lambda *args: embedded.append(1) or features(*args))
    tests = EmbeddedTestSets(stream)
    for task in stream:
        method.learn(task)
        before, within = len(made), len(embedded)
        evaluate(method, stream, task.position, tests)
        assert len(made) == before + 1
        assert len(embedded) - within == (1 if method.frozen else 0)


def test_answers_of_any_method_are_counted_and_the_same_after_a_kill(tmp_path, monkeypatch):
    monkeypatch.setattr("protoreplay.experiments.run.CHECKPOINT_SECONDS", 0.0)
    spec = resolve("split-digits", "sgd", 0, {"epochs": 2, "tasks": 6})
    counts = execute(spec, tmp_path / "whole")
    folder = RunFolder(tmp_path / "whole")
    write_counts = RunFolder.write_counts

    def killed(self, rows):
        write_counts(self, rows)
        if len(rows) == 10:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_counts", killed)
        with pytest.raises(KeyboardInterrupt):
            execute(spec, tmp_path / "killed")
    execute(spec, tmp_path / "killed")
    for name in ("confusion.csv", "calibration.csv", "top5.csv"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    confusion, calibration, top = (folder.answers(name) for name in ("confusion", "calibration", "top5"))
    for trained in range(1, 7):
        images = sum(row.n for row in counts if row.trained == trained)
        right = sum(row.correct for row in counts if row.trained == trained)
        assert sum(row.n for row in confusion if row.trained == trained) == images
        assert sum(row.n for row in confusion if row.trained == trained and row.label == row.answer) == right
        assert sum(row.n for row in calibration if row.trained == trained) == images
        assert sum(row.correct for row in calibration if row.trained == trained) == right
    assert [row[:3] for row in top] == [row[:3] for row in counts]
    assert all(five.correct >= one.correct for five, one in zip(top, counts))
    assert all(row.correct == row.n for row in top if row.trained <= 4)  # no more than five classes are known
    classes, matrix = answers.confusion_matrix(confusion)
    assert classes == list(range(7))
    by_class = answers.accuracy_by_class(confusion)
    assert [by_class[label] for label in classes] == pytest.approx(np.diag(matrix) / matrix.sum(1))


def test_known_answers(stream):
    import torch

    tally = AnswerTally()
    tally.add(1, (3, 5), 1, torch.tensor([[0.9, 0.1], [0.3, 0.7], [0.5, 0.5]]), torch.tensor([3, 3, 5]))
    tally.end_task(1)
    assert tally.confusion == [(1, 3, 3, 1), (1, 3, 5, 1), (1, 5, 3, 1)]
    assert tally.calibration == [(1, 7, 1, 0, 0.5), (1, 10, 1, 0, 0.7), (1, 13, 1, 1, 0.9)]
    assert answers.expected_calibration_error(tally.calibration) == pytest.approx((0.5 + 0.7 + 0.1) / 3)
    assert AnswerTally(tally.to_text()).confusion == tally.confusion

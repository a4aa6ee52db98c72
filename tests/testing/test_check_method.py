"""The battery passes a method that keeps the contract, and catches each way to break it with the check for it."""

import numpy as np
import pytest
import torch

from protoreplay.core.errors import UserError
from protoreplay.core.settings import Settings
from protoreplay.methods.base import Method
from protoreplay.methods.nearest_mean import NearestMean
from protoreplay.methods.registry import METHODS, MethodEntry
from protoreplay.testing import CHECKS, Subject, check_method
from protoreplay.testing.toy import toy_task


class PlainConfig(Settings):
    """No settings."""


class Plain(Method[PlainConfig]):
    """The nearest sum of random projections: a method as a stranger might write it."""

    Config = PlainConfig
    summary = "nearest mean of random projections"
    frozen = True

    def __init__(self, config, context):
        super().__init__(config, context)
        width = torch.Size(context.image_shape).numel()
        self.directions = self.carry("directions", torch.randn(width, 20, generator=self.generator("directions")))
        self.sums = self.carry("sums", torch.zeros(context.num_classes, 20))
        self.counts = self.carry("counts", torch.zeros(context.num_classes))

    def _features(self, images):
        return images.flatten(1).float() / 255 @ self.directions

    def _learn(self, task, on_step):
        self.sums = self.sums.index_add(0, task.labels, self._features(task.images))
        self.counts = self.counts + task.labels.bincount(minlength=len(self.counts))

    def means(self):
        return (self.sums / self.counts[:, None])[list(self.classes)]

    def _classifier(self):
        return lambda features: (-torch.cdist(features, self.means())).softmax(1)


class UsesNumPysRandomNumbers(Plain):
    def _learn(self, task, on_step):
        super()._learn(task, on_step)
        self.sums = self.sums + 1e-3 * float(np.random.random())  # noqa: NPY002


class DrawsWhenMade(Plain):
    def __init__(self, config, context):
        super().__init__(config, context)
        torch.rand(3)


class IsTheSameWithEverySeed(Plain):
    def __init__(self, config, context):
        super().__init__(config, context)
        self.directions = torch.randn(self.directions.shape, generator=torch.Generator().manual_seed(0))


class SaysItIsDeterministic(Plain):
    deterministic = True


class ForgetsToCarry(Plain):
    def __init__(self, config, context):
        super().__init__(config, context)
        del self._carried["counts"]


class CountsTasksInSecret(Plain):
    """What a task counts for depends on how many there were: no tensor, so nothing but a continuation shows it."""

    tasks = 0

    def _learn(self, task, on_step):
        self.tasks += 1
        self.sums = self.sums + self.tasks * 1e-3
        super()._learn(task, on_step)


class KeepsTheTask(Plain):
    def _learn(self, task, on_step):
        super()._learn(task, on_step)
        self.last = [{"task": task}]


class KeepsWhatItWasAsked(Plain):
    def _features(self, images):
        self.asked = (lambda kept: lambda: kept)(images.clone())
        return super()._features(images)


class HoldsTheImagesThemselves(Plain):
    def __init__(self, config, context):
        super().__init__(config, context)
        self.images = self.carry("images", torch.zeros(0, *context.image_shape, dtype=torch.uint8))

    def _learn(self, task, on_step):
        super()._learn(task, on_step)
        self.images = task.images


class WorksInPlace(Plain):
    def _learn(self, task, on_step):
        task.images.bitwise_not_()
        super()._learn(task, on_step)


class GivesItsOwnTensors(Plain):
    def _learn(self, task, on_step):
        self.sums.index_add_(0, task.labels, self._features(task.images))
        self.counts += task.labels.bincount(minlength=len(self.counts))

    def state(self):
        return super().state() | {"sums": self.sums}


class CountsItsAnswers(Plain):
    def __init__(self, config, context):
        super().__init__(config, context)
        self.asked = self.carry("asked", 0)

    def _classifier(self):
        self.asked += 1
        return super()._classifier()


class ComparesWithinTheBatch(Plain):
    def _classifier(self):
        return lambda features: (-torch.cdist(features - features.mean(0), self.means())).softmax(1)


class AnswersForAllClasses(Plain):
    def means(self):
        return torch.where(self.counts[:, None] > 0, self.sums / self.counts[:, None], 1e3)


class AnswersInTheOrderOfTasks(Plain):
    def __init__(self, config, context):
        super().__init__(config, context)
        self.order = self.carry("order", torch.zeros(0, dtype=torch.int64))

    def _learn(self, task, on_step):
        self.order = torch.tensor(list(dict.fromkeys([*self.order.tolist(), *task.classes])))
        super()._learn(task, on_step)

    def predict(self, images, embedded=False):
        return (
            self.order[self.predict_proba(images, embedded).argmax(1)] if len(self.order) else super().predict(images)
        )


class DividesByOneLess(Plain):
    def means(self):
        return (self.sums / (self.counts[:, None] - 1))[list(self.classes)]


class RefusesOldClasses(Plain):
    def _learn(self, task, on_step):
        if not set(task.classes).isdisjoint(self.old_classes):
            raise ValueError("classes must be new")
        super()._learn(task, on_step)


class NeedsAnImage(Plain):
    def _features(self, images):
        return super()._features(images) / images.max()


class HasAnotherLedger(Plain):
    def ledger(self):
        return super().ledger()[1:]


class CountsStepsFromNought(Plain):
    def _learn(self, task, on_step):
        super()._learn(task, on_step)
        on_step(0, 1, 0.5)


class LearnsNothing(Plain):
    def _classifier(self):
        return lambda features: torch.full((len(features), len(self.classes)), 1 / len(self.classes))


class TakesTheFirstHalfForTheLowerLabel(Plain):
    """Right for images that come class by class in ascending order."""

    def _learn(self, task, on_step):
        labels = task.labels.sort().values if task.labels[0] == max(task.classes) else task.labels
        self.sums = self.sums.index_add(0, labels, self._features(task.images))
        self.counts = self.counts + labels.bincount(minlength=len(self.counts))


class ChangesItsFeatures(Plain):
    def _learn(self, task, on_step):
        self.directions = self.directions * 1.01
        super()._learn(task, on_step)


BROKEN = {
    UsesNumPysRandomNumbers: ("global_random_state_is_left_alone", "NumPy"),
    DrawsWhenMade: ("global_random_state_is_left_alone", "PyTorch"),
    IsTheSameWithEverySeed: ("another_seed_another_result", "deterministic = True"),
    SaysItIsDeterministic: ("another_seed_another_result", "directions"),
    ForgetsToCarry: ("restored_state_continues_the_same", "after 1 tasks, it answers otherwise"),
    CountsTasksInSecret: ("restored_state_continues_the_same", "continues otherwise: sums"),
    KeepsTheTask: ("all_that_is_carried_is_declared", "last.0.task.images"),
    KeepsWhatItWasAsked: ("all_that_is_carried_is_declared", "asked"),
    HoldsTheImagesThemselves: ("task_data_is_left_alone", "images of its state"),
    WorksInPlace: ("task_data_is_left_alone", "learn changes the task's images"),
    GivesItsOwnTensors: ("state_is_a_snapshot", "sums"),
    CountsItsAnswers: ("predicting_changes_nothing", "asked"),
    ComparesWithinTheBatch: ("answers_do_not_depend_on_the_batch", "alone"),
    AnswersForAllClasses: ("predicts_only_classes_seen", r"shape \(40, 10\), not \(40, 2\)"),
    AnswersInTheOrderOfTasks: ("predicts_only_classes_seen", "not the most probable class"),
    DividesByOneLess: ("one_class_with_one_image", "finite"),
    RefusesOldClasses: ("classes_may_come_back", "it raises ValueError: classes must be new"),
    NeedsAnImage: ("no_image_is_an_empty_answer", "it raises"),
    HasAnotherLedger: ("ledger_adds_up", "its ledger shows"),
    CountsStepsFromNought: ("steps_are_reported", "not reported as 1 to 1 of 1"),
    LearnsNothing: ("learns_what_is_easy", "50 % of its own training images"),
    TakesTheFirstHalfForTheLowerLabel: ("labels_may_be_in_any_order", "higher label first"),
    ChangesItsFeatures: ("features_never_change_if_frozen", "its features change"),
}


def test_a_method_of_ones_own_passes():
    check_method(Plain)
    check_method(MethodEntry(Plain))


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_the_right_check_catches_a_broken_method(broken):
    check, what = BROKEN[broken]
    alone = Subject.of(broken)
    if "it raises" in what:
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the method raises
            CHECKS[check](alone)
    else:
        with pytest.raises(AssertionError, match=what):
            CHECKS[check](alone)
    with pytest.raises(AssertionError, match=f"{broken.__name__} fails [a-z_]+: "):
        check_method(broken)


def test_every_check_is_needed_by_some_broken_method():
    assert {check for check, _ in BROKEN.values()} | {"same_seed_same_bits"} == set(CHECKS)


def test_the_first_failing_check_is_named_with_what_was_wrong():
    with pytest.raises(AssertionError, match="RefusesOldClasses fails classes_may_come_back: it raises ValueError"):
        check_method(RefusesOldClasses)


def test_a_name_of_the_registry_a_file_and_settings(tmp_path):
    check_method("nearest-mean-random", {"filters": 5}, image_shape=(3, 9, 7))
    path = tmp_path / "mine.py"
    path.write_text(
        "from protoreplay.methods.nearest_mean import NearestMean\n"
        "class Mine(NearestMean):\n"
        "    def ledger(self):\n"
        "        return []\n"
    )
    with pytest.raises(AssertionError, match="Mine fails ledger_adds_up: its ledger shows 0 numbers"):
        check_method(f"{path}:Mine")
    with pytest.raises(UserError, match="unknown method 'nearest'"):
        check_method("nearest")
    with pytest.raises(UserError, match="unknown setting 'dim' of NearestMean"):
        check_method(NearestMean, {"dim": 3})


def test_whether_it_is_deterministic_may_depend_on_settings():
    check = CHECKS["another_seed_another_result"]
    for name in ("nearest-mean", "nearest-mean-random", "nearest-mean-encoder"):
        check(Subject.of(name, {"filters": 5}))
    check(Subject.of("slda", {"features": "pixels"}))
    assert METHODS.get("nearest-mean").method is METHODS.get("nearest-mean-random").method


def test_the_callers_random_state_is_as_before():
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    CHECKS["global_random_state_is_left_alone"](Subject.of(Plain))
    found = torch.rand(2), np.random.random()  # noqa: NPY002
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    assert torch.equal(found[0], torch.rand(2))
    assert found[1] == np.random.random()  # noqa: NPY002


def test_toy_images_of_any_shape():
    task = toy_task(2, (1, 4), shots=3, image_shape=(3, 5, 12))
    assert task.images.shape == (6, 3, 5, 12)
    assert task.images.dtype == torch.uint8
    assert sorted(task.labels.tolist()) == [1, 1, 1, 4, 4, 4]

"""What every method must do, one check each: a function that raises an `AssertionError` saying what was wrong.

`if ...: raise`, not `assert`: the checks also work under `python -O`, and the messages are for people who do not know
this file.
"""

import math
import random
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from protoreplay.streams.stream import Task
from protoreplay.testing.subject import Subject
from protoreplay.testing.undeclared import undeclared

Check = Callable[[Subject], None]

CHECKS: dict[str, Check] = {}
"""All checks by name, in the order in which they are made."""

EASY = 0.9
"""Share of the training images of two very different classes that must be right."""


def _in_battery(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


def _expect(right: bool | Tensor, otherwise: str) -> None:
    if not right:
        raise AssertionError(otherwise)


def _same_state(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], otherwise: str) -> None:
    """Raise `otherwise` with the names of what differs, if anything does, in its names or in any bit."""
    differing = sorted(found.keys() ^ wanted.keys())
    differing += [key for key in found.keys() & wanted.keys() if not torch.equal(found[key], wanted[key])]
    _expect(not differing, f"{otherwise}: {', '.join(differing[:5])} of its state differ")


@_in_battery
def same_seed_same_bits(subject: Subject) -> None:
    """Two methods of one seed that are taught the same are the same, and so are their answers."""
    first, second = subject.taught(), subject.taught()
    _same_state(first.state(), second.state(), "taught the same with the same seed, it is not the same to the bit")
    images = subject.images()
    same = torch.equal(first.predict_proba(images), second.predict_proba(images))
    _expect(same, "with the same seed and the same state, its probabilities are not the same to the bit")


@_in_battery
def another_seed_another_result(subject: Subject) -> None:
    """Another seed gives another state, unless the method declares that it is `deterministic`."""
    first, second = subject.taught(seed=0), subject.taught(seed=1)
    if first.deterministic:
        _same_state(first.state(), second.state(), "it says it is deterministic, and changes with the seed")
        return
    before, after = first.state(), second.state()
    differs = any(not torch.equal(before[key], after[key]) for key in before if key in after)
    _expect(differs, "the seed changes nothing: use self.generator(...), or declare `deterministic = True`")


@_in_battery
def global_random_state_is_left_alone(subject: Subject) -> None:
    """Neither PyTorch's, nor NumPy's, nor Python's global random numbers are drawn from, or matter."""
    kept = torch.random.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        states = []
        for seed in (1, 2):
            expected = _first_draws(seed)
            _seed_everything(seed)
            method = subject.taught()
            method.predict(subject.images())
            states.append(method.state())
            for library, next_number in _next_draws().items():
                unchanged = next_number == expected[library]
                _expect(unchanged, f"it changes the global random state of {library}: use self.generator(...)")
        _same_state(states[0], states[1], "its result depends on the global random state")
    finally:
        torch.random.set_rng_state(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002
        random.setstate(kept[2])


def _seed_everything(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the global state is what this is about
    random.seed(seed)


def _next_draws() -> dict[str, float]:
    return {"PyTorch": torch.rand(()).item(), "NumPy": float(np.random.random()), "Python": random.random()}  # noqa: NPY002


def _first_draws(seed: int) -> dict[str, float]:
    _seed_everything(seed)
    return _next_draws()


@_in_battery
def restored_state_continues_the_same(subject: Subject) -> None:
    """After any number of tasks, a state given to another object gives the same answers and the same continuation."""
    images = subject.images()
    for after in range(4):
        original, restored = subject.taught(tasks=after), subject.build()
        restored.restore(original.state())
        when = f"restored after {after} tasks"
        _same_state(restored.state(), original.state(), f"{when}, its state is not what was restored")
        if after:
            same = torch.equal(restored.predict_proba(images), original.predict_proba(images))
            _expect(same, f"{when}, it answers otherwise: does it carry(...) all that it needs?")
        for task in subject.stream()[after:]:
            original.learn(task)
            restored.learn(task)
        _same_state(restored.state(), original.state(), f"{when}, it continues otherwise")
        same = torch.equal(restored.predict_proba(images), original.predict_proba(images))
        _expect(same, f"{when} and taught the rest, it answers otherwise: does it carry(...) all that it needs?")


@_in_battery
def state_is_a_snapshot(subject: Subject) -> None:
    """What `state()` gave does not change when the method learns on."""
    method = subject.taught(tasks=1)
    state = method.state()
    copy = {key: value.clone() for key, value in state.items()}
    method.learn(subject.stream()[1])
    _same_state(state, copy, "a state that was taken changes while the method learns on")


@_in_battery
def predicting_changes_nothing(subject: Subject) -> None:
    """The same question gives the same answer, and leaves the state as it was."""
    method, images = subject.taught(tasks=2), subject.images()
    before, answers = method.state(), method.predict_proba(images)
    _expect(torch.equal(method.predict_proba(images), answers), "asked twice, it gives two answers")
    _same_state(method.state(), before, "its state changes when it is asked")


@_in_battery
def answers_do_not_depend_on_the_batch(subject: Subject) -> None:
    """An image alone is answered for as among others."""
    method, images = subject.taught(), subject.images()
    together, alone = method.predict_proba(images), [method.predict_proba(image[None]) for image in images]
    apart = float((together - torch.cat(alone)).abs().max())
    _expect(apart <= 1e-4, f"a probability changes by {apart:.2g} when an image is asked for alone")


@_in_battery
def predicts_only_classes_seen(subject: Subject) -> None:
    """Probabilities are of the classes seen, in their order, and a prediction is the most probable one."""
    method, images = subject.build(), subject.images()
    _refuses_before_learning(method.predict, images)
    seen: set[int] = set()
    for task in subject.stream():
        method.learn(task)
        seen |= set(task.classes)
        _expect(method.classes == tuple(sorted(seen)), f"its classes are {method.classes}, not {sorted(seen)}")
        probabilities = method.predict_proba(images)
        shape, wanted = tuple(probabilities.shape), (len(images), len(seen))
        _expect(shape == wanted, f"after {len(seen)} classes, probabilities are of shape {shape}, not {wanted}")
        _expect((probabilities >= 0).all(), "a probability is negative or not a number")
        _expect((probabilities.sum(1) - 1).abs().max() < 1e-4, "the probabilities of an image do not add up to 1")
        predictions = method.predict(images)
        _expect(predictions.dtype == torch.int64, f"predictions are {predictions.dtype}, not int64")
        likeliest = torch.tensor(method.classes)[probabilities.argmax(1)]
        _expect(torch.equal(predictions, likeliest), "a prediction is not the most probable class seen")


def _refuses_before_learning(predict: Callable[[Tensor], Tensor], images: Tensor) -> None:
    try:
        predict(images)
    except RuntimeError:
        return
    raise AssertionError("before it has learned a class, predict gives an answer instead of a RuntimeError")


@_in_battery
def one_class_with_one_image(subject: Subject) -> None:
    """A first task may be a single image."""
    method, task = subject.build(), subject.task(1, (4,), shots=1)
    method.learn(task)
    _expect(method.predict(task.images).tolist() == [4], "taught one image of one class, it does not answer that class")
    _expect(torch.isfinite(method.predict_proba(task.images)).all(), "its probabilities are not finite")


@_in_battery
def classes_may_come_back(subject: Subject) -> None:
    """A later task may bring classes that were there before."""
    method, images = subject.build(), subject.images()
    for position in (1, 2, 3):
        method.learn(subject.task(position, (1, 6)))
    _expect(method.classes == (1, 6), f"taught 1 and 6 three times, its classes are {method.classes}")
    probabilities = method.predict_proba(images)
    _expect(probabilities.shape == (len(images), 2), "taught 1 and 6 three times, it does not answer for two classes")
    _expect(torch.isfinite(probabilities).all(), "its probabilities are not finite")


@_in_battery
def task_data_is_left_alone(subject: Subject) -> None:
    """A task's images and labels are not changed by `learn`, nor used after it."""
    method, images = subject.build(), subject.images()
    for task in subject.stream()[:2]:
        before = task.images.clone(), task.labels.clone()
        method.learn(task)
        unchanged = torch.equal(task.images, before[0]) and torch.equal(task.labels, before[1])
        _expect(unchanged, "learn changes the task's images or labels")
        answers, state = method.predict_proba(images), method.state()
        task.images.zero_()
        task.labels.fill_(9)
        _same_state(method.state(), state, "it changes with the task's tensors after learn: keep copies")
        same = torch.equal(method.predict_proba(images), answers)
        _expect(same, "its answers change with the task's tensors after learn: keep copies")
    method.learn(subject.stream()[2])
    _same_state(method.state(), subject.taught().state(), "it uses an earlier task's tensors in a later learn")


@_in_battery
def no_image_is_an_empty_answer(subject: Subject) -> None:
    """Asked for no image, it gives no answer, and no error."""
    method, nothing = subject.taught(tasks=1), subject.images(0)
    shape = tuple(method.predict(nothing).shape)
    _expect(shape == (0,), f"of no images, its predictions are of shape {shape}, not (0,)")


@_in_battery
def ledger_adds_up(subject: Subject) -> None:
    """The ledger's numbers and bytes are those of the state, and each of its items has a name of its own."""
    method = subject.taught()
    ledger, stored = method.ledger(), list(method.state().values())
    for what, shown, real in (
        ("numbers", sum(item.numbers for item in ledger), sum(tensor.numel() for tensor in stored)),
        ("bytes", sum(item.bytes for item in ledger), sum(tensor.nbytes for tensor in stored)),
    ):
        _expect(shown == real, f"its ledger shows {shown} {what}, its state has {real}")
    _expect(len({item.name for item in ledger}) == len(ledger), "two items of its ledger have one name")


@_in_battery
def all_that_is_carried_is_declared(subject: Subject) -> None:
    """Every tensor reachable from the method is in its state: no forgotten attribute escapes the ledger."""
    method = subject.taught()
    method.predict(subject.images())
    hidden = undeclared(method)
    where = ", ".join(hidden[:5])
    _expect(not hidden, f"{where}: held between tasks and not in its state: declare it with self.carry(...)")


@_in_battery
def steps_are_reported(subject: Subject) -> None:
    """Steps are counted from 1 to their total, each with a finite loss; a method that trains a network reports some."""
    steps: list[tuple[int, int, float]] = []
    method = subject.build()
    method.learn(subject.stream()[0], lambda step, total, loss: steps.append((step, total, loss)))
    expected = not subject.trains or getattr(method.config, "epochs", 0) == 0
    _expect(bool(steps) or expected, "it trains a network and never calls on_step(step, total, loss)")
    numbered = [(step, total) for step, total, _ in steps] == [(n, len(steps)) for n in range(1, len(steps) + 1)]
    _expect(numbered, f"its {len(steps)} steps are not reported as 1 to {len(steps)} of {len(steps)}")
    _expect(all(math.isfinite(loss) for *_, loss in steps), "a reported loss is not a finite number")


@_in_battery
def learns_what_is_easy(subject: Subject) -> None:
    """Two very different classes, enough steps: nearly all of the training images right."""
    _learns(subject, subject.task(1, (3, 8), shots=10), "of two classes of stripes")


@_in_battery
def labels_may_be_in_any_order(subject: Subject) -> None:
    """It learns whether a task's images come class by class or not, and whichever class has the lower label."""
    task = subject.task(1, (3, 8), shots=10)
    order = task.labels.argsort(stable=True)
    class_by_class = Task(1, task.classes, task.images[order], task.labels[order])
    _learns(subject, class_by_class, "of two classes, one after the other,")
    swapped = Task(1, task.classes, task.images[order], sum(task.classes) - task.labels[order])
    _learns(subject, swapped, "of two classes, the one with the higher label first,")


def _learns(subject: Subject, task: Task, what: str) -> None:
    right = 0.0
    for method in subject.build_patient():
        method.learn(task)
        right = float((method.predict(task.images) == task.labels).float().mean())
        if right >= EASY:
            return
    raise AssertionError(f"{what} it gets {100 * right:.0f} % of its own training images right, not {100 * EASY:.0f} %")


@_in_battery
def features_never_change_if_frozen(subject: Subject) -> None:
    """`embed` gives what it gave after the first task; where a method is not `frozen`, the images themselves."""
    method, images = subject.taught(tasks=1), subject.images()
    early = method.embed(images)
    _expect(method.frozen or early is images, "it is not frozen: embed must give the images")
    for task in subject.stream()[1:]:
        method.learn(task)
    _expect(torch.equal(method.embed(images), early), "it says it is frozen, and its features change with later tasks")
    same = torch.equal(method.predict(early, embedded=True), method.predict(images))
    _expect(same, "from features that were computed after the first task it predicts otherwise")

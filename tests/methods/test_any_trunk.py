"""Every method that trains an encoder trains a user's own: with batch normalisation and strides."""

from pathlib import Path

import pytest
import torch
from torch import nn

from protoreplay.encoders.registry import ENCODERS
from protoreplay.methods.base import EncoderSettings, MethodContext
from protoreplay.methods.registry import METHODS
from protoreplay.testing import CHECKS, Subject, toy_task

RESNET = f"{Path(__file__).with_name('small_resnet.py')}:SmallResNet"
TRAINED = [name for name, entry in METHODS.items() if issubclass(entry.method.Config, EncoderSettings)]
UNTRAINED = [name for name in METHODS if {"encoder", "features"} <= METHODS.get(name).method.Config.model_fields.keys()]
QUICK = {"dim": 6, "samples": 3, "budget": 4}
TASKS = [toy_task(1, (0, 1)), toy_task(2, (2,)), toy_task(3, (3,), shots=1), toy_task(4, (0, 2))]


def settings(name, **chosen):
    fields = METHODS.get(name).method.Config.model_fields
    return {key: value for key, value in QUICK.items() if key in fields} | {"encoder": RESNET, **chosen}


def taught(name, tasks, **chosen):
    entry = METHODS.get(name)
    method = entry.build(entry.settings({}, settings(name, epochs=3, **chosen), name), MethodContext((1, 8, 8), 10))
    for task in tasks:
        method.learn(task)
    return method


@pytest.mark.parametrize("name", TRAINED)
def test_a_residual_network_is_trained_and_stays_finite(name):
    """Also by batches of one image at the end of a pass, and by a task of one image."""
    method = taught(name, TASKS, batch_size=3)
    state = method.state()
    assert all(torch.isfinite(tensor).all() for tensor in state.values())
    before, after = taught(name, []).network.state_dict(), method.network.state_dict()
    assert all(not torch.equal(before[key], after[key]) for key in before if not key.startswith("head"))
    counted = {key: tensor for key, tensor in state.items() if key.endswith("num_batches_tracked")}
    assert len(counted) == 5
    assert all(tensor.dtype == torch.int64 and tensor > 0 for tensor in counted.values())
    assert not any(layer.training for layer in method.network.modules())


CHECKED = [
    "same_seed_same_bits",
    "restored_state_continues_the_same",
    "predicting_changes_nothing",
    "answers_do_not_depend_on_the_batch",
    "one_class_with_one_image",
    "all_that_is_carried_is_declared",
    "learns_what_is_easy",
]


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("check", CHECKED)
def test_the_contract_holds_with_its_buffers(name, check):
    CHECKS[check](Subject.of(name, settings(name)))


@pytest.mark.parametrize("name", UNTRAINED)
def test_its_features_before_any_training_are_the_same_for_every_batch(name):
    subject = Subject.of(name, {"encoder": RESNET, "features": "encoder"})
    for check in ("answers_do_not_depend_on_the_batch", "features_never_change_if_frozen"):
        CHECKS[check](subject)


class WithDropout(nn.Module):
    """Tells, for every call, whether it was in training mode, and on how many images."""

    calls: list[tuple[bool, int]] = []  # noqa: RUF012 - shared by the network and its teachers on purpose

    def __init__(self, shape):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.Dropout(), nn.ReLU())

    def forward(self, images):
        self.calls.append((self.training, torch.is_grad_enabled()))
        return self.layers(images.float() / 255)


@pytest.mark.parametrize("name", TRAINED)
def test_training_mode_is_for_training_steps_alone(name, monkeypatch):
    """Not for teachers, importances, exemplars, prototypes, predictions; dropout repeats with the seed."""
    monkeypatch.setattr(ENCODERS, "_session", {})
    ENCODERS.register("with-dropout", WithDropout)
    methods = []
    for _ in range(2):
        WithDropout.calls.clear()
        methods.append(taught(name, TASKS[:2], encoder="with-dropout"))
        assert any(training for training, _ in WithDropout.calls)
        # What is computed without gradients, such as what a teacher says, is no training.
        assert all(gradients for training, gradients in WithDropout.calls if training)
        WithDropout.calls.clear()
        answers = methods[-1].predict_proba(TASKS[0].images)
        assert not any(training for training, _ in WithDropout.calls)
        assert torch.equal(methods[-1].predict_proba(TASKS[0].images), answers)
    first, second = (method.state() for method in methods)
    assert all(torch.equal(first[key], second[key]) for key in first)


class HalfFrozen(nn.Module):
    """One layer that is not trained, and one that takes no part."""

    def __init__(self, shape):
        super().__init__()
        self.fixed = nn.Linear(64, 20).requires_grad_(False)
        self.used, self.unused = nn.Linear(20, 20), nn.Linear(2, 2)

    def forward(self, images):
        return self.used(self.fixed(images.flatten(1).float() / 255).relu()).relu()


@pytest.mark.parametrize("name", TRAINED)
def test_weights_that_are_not_trained_or_take_no_part_stay_as_they_are(name, monkeypatch):
    monkeypatch.setattr(ENCODERS, "_session", {})
    ENCODERS.register("half-frozen", HalfFrozen)
    before = taught(name, [], encoder="half-frozen").network.state_dict()
    after = taught(name, TASKS[:3], encoder="half-frozen").network.state_dict()
    same = {key for key in before if torch.equal(before[key], after[key]) and key.startswith("trunk")}
    assert same == {f"trunk.{layer}.{part}" for layer in ("fixed", "unused") for part in ("weight", "bias")}

import json

import pytest

from protoreplay import evaluate, make_method, make_stream
from protoreplay.core.errors import UserError
from protoreplay.experiments.spec import resolve
from protoreplay.experiments.tune import add_to, tune
from protoreplay.methods import presets, registry
from protoreplay.metrics.accuracy import average_accuracy


@pytest.fixture
def _two_rates(monkeypatch):
    monkeypatch.setattr(registry.METHODS.get("sgd").method, "search", {"lr": (1e-5, 1e-2)})


@pytest.mark.usefixtures("_two_rates")
def test_the_best_on_validation_streams_of_two_tasks_comes_first(tmp_path):
    trials = tune("split-digits", "sgd", 2, tmp_path)
    expected = {}
    for rate in (1e-5, 1e-2):
        scores = []
        for seed in (1000, 1001):
            stream = make_stream("split-digits", seed, "validation", tasks=2)
            method = make_method("sgd", stream, seed, lr=rate)
            counts = []
            for task in stream:
                method.learn(task)
                counts += evaluate(method, stream, task.position)
            scores.append(average_accuracy(counts))
        expected[rate] = sum(scores) / 2
    assert {trial.settings["lr"]: trial.accuracy for trial in trials} == pytest.approx(expected)
    assert trials[0].accuracy >= trials[1].accuracy
    for config in tmp_path.rglob("config.json"):
        assert json.loads(config.read_text())["evaluation"] == "validation"


@pytest.mark.usefixtures("_two_rates")
def test_what_is_found_is_stored_with_how_and_can_be_used(tmp_path, monkeypatch):
    trials = tune("split-digits", "sgd", 1, tmp_path / "runs")
    add_to(tmp_path / "tuned.json", "split-digits", "sgd", trials, 2)
    add_to(tmp_path / "tuned.json", "split-digits", "sgd", trials, 1)
    stored = presets.parse_presets((tmp_path / "tuned.json").read_text())
    assert [entry.source.command for entry in stored] == ["protoreplay tune split-digits --method sgd --seeds 1"]
    monkeypatch.setattr(presets, "preset_entries", lambda: stored)
    spec = resolve("split-digits", "sgd@tuned", 0, {})
    assert spec.method_settings.lr == trials[0].settings["lr"]
    assert spec.variant == "sgd@tuned"


@pytest.mark.usefixtures("_two_rates")
def test_settings_for_all_trials_are_used_and_written_down(tmp_path):
    given = {"max_steps": "3", "shots": "5"}
    trials = tune("split-digits", "sgd", 1, tmp_path / "runs", given)
    for path in tmp_path.rglob("config.json"):
        config = json.loads(path.read_text())
        assert config["method"]["settings"]["max_steps"] == 3
        assert config["protocol"]["settings"]["shots"] == 5
    add_to(tmp_path / "tuned.json", "split-digits", "sgd", trials, 1, given)
    (stored,) = presets.parse_presets((tmp_path / "tuned.json").read_text())
    assert stored.source.command.endswith("--seeds 1 --set max_steps=3 --set shots=5")
    assert set(stored.settings) == {"lr"}
    with pytest.raises(UserError, match="tasks cannot be set: settings are chosen on the first 2"):
        tune("split-digits", "sgd", 1, tmp_path, {"tasks": "9"})
    with pytest.raises(UserError, match="lr is both set and varied"):
        tune("split-digits", "sgd", 1, tmp_path, {"lr": "1"})


def test_names_with_presets():
    with pytest.raises(UserError, match="unknown preset 'best' in sgd@best; known: published, tuned"):
        resolve("split-digits", "sgd@best", 0, {})
    with pytest.raises(
        UserError, match="no tuned settings of joint for split-digits: find them with `protoreplay tune"
    ):
        resolve("split-digits", "joint@tuned", 0, {})
    with pytest.raises(UserError, match="nearest-mean has no settings to search"):
        tune("split-digits", "nearest-mean", 1, None)


def test_published_settings_are_those_of_the_protocol(small_cache):
    assert resolve("split-cifar10", "sgd", 0, {}).method_settings.lr == 1e-2
    assert resolve("permuted-mnist", "sgd", 0, {}).method_settings.lr == 1e-3
    assert resolve("split-mini-imagenet", "sgd", 0, {}).method_settings.epochs == 20
    assert resolve("split-cifar10", "sgd", 0, {"lr": 0.5}).method_settings.lr == 0.5

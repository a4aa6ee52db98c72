import json
from pathlib import Path

import pytest

from protoreplay import cli, evaluate, make_method, make_stream
from protoreplay.analysis.results import collect
from protoreplay.core.errors import UserError
from protoreplay.experiments.grid import RunsFailedError
from protoreplay.experiments.run import execute
from protoreplay.experiments.spec import resolve
from protoreplay.experiments.tune import AUGMENTATION, Trial, TuningPlan, TuningResult, add_to, tune
from protoreplay.methods import presets, registry
from protoreplay.methods.base import EncoderSettings
from protoreplay.methods.sgd import SGD
from protoreplay.metrics.accuracy import average_accuracy

QUICK = {"epochs": "2"}


def plan(method="sgd", **fields):
    """A search of two rates on two tasks of one stream."""
    usual = {"seeds": 1, "tasks": 2, "overrides": QUICK, "vary": {"lr": ["1e-5", "1e-2"]}}
    return TuningPlan("split-digits", method, **{**usual, **fields})


def accuracy(seed, **settings):
    stream = make_stream("split-digits", seed, "validation", tasks=2)
    method = make_method("sgd", stream, seed, **settings)
    counts = []
    for task in stream:
        method.learn(task)
        counts += evaluate(method, stream, task.position)
    return average_accuracy(counts)


def test_the_grid_is_tried_on_validation_streams_and_the_best_again_with_augmentation(tmp_path):
    found = tune(plan(seeds=2, overrides={}), tmp_path)
    means = {rate: sum(accuracy(seed, lr=rate) for seed in (1000, 1001)) / 2 for rate in (1e-5, 1e-2)}
    best = max(means, key=means.__getitem__)
    augmented = sum(accuracy(seed, lr=best, **AUGMENTATION) for seed in (1000, 1001)) / 2
    expected = [({"lr": rate}, mean) for rate, mean in means.items()] + [({"lr": best, **AUGMENTATION}, augmented)]
    expected.sort(key=lambda one: -one[1])
    assert [trial.settings for trial in found.trials] == [settings for settings, _ in expected]
    assert [trial.accuracy for trial in found.trials] == pytest.approx([reached for _, reached in expected])
    for config in tmp_path.rglob("config.json"):
        assert json.loads(config.read_text())["evaluation"] == "validation"


@pytest.mark.parametrize(("protocol", "most", "tasks"), [("split-digits", 10, 9), ("permuted-digits", 3, 3)])
def test_all_tasks_are_taken_but_no_more_than_a_few(tmp_path, protocol, most, tasks, monkeypatch):
    monkeypatch.setattr("protoreplay.experiments.tune.MOST_TASKS", most)
    given = {"features": "pixels", "test_images": "5"}
    found = tune(TuningPlan(protocol, "slda", 1, None, given, {"shrinkage": ["0.5"]}), tmp_path)
    assert found.plan.tasks == tasks
    (config,) = tmp_path.rglob("config.json")
    assert json.loads(config.read_text())["protocol"]["settings"]["tasks"] == tasks


def test_values_from_the_command_take_the_place_of_an_axis_or_add_one(tmp_path):
    given = plan("slda", overrides={"features": "pixels"}, vary={"shrinkage": ["0.2", "0.20", "1"]})
    assert tune(given, tmp_path).tried == {"shrinkage": [0.2, 1.0]}
    assert plan("online-ewc", vary={"gamma": ["0.5", "1"]}).grid().keys() == {"lr", "strength", "gamma"}
    with pytest.raises(UserError, match="unknown setting 'shots' of sgd"):
        plan(vary={"shots": ["5"]}).grid()
    with pytest.raises(UserError, match="sgd: lr=-1: input should be greater than 0"):
        plan(vary={"lr": ["-1"]}).grid()


def test_augmentation_that_is_set_is_not_searched(tmp_path):
    found = tune(plan(overrides={**QUICK, "augment_flip": "true"}), tmp_path)
    assert len(found.trials) == 2
    assert found.tried.keys() == {"lr"}


def test_what_is_found_is_stored_with_how_and_can_be_used(tmp_path, monkeypatch):
    given = {"max_steps": "3", "shots": "5"}
    found = tune(plan(overrides=given), tmp_path / "runs")
    for path in tmp_path.rglob("config.json"):
        config = json.loads(path.read_text())
        assert config["method"]["settings"]["max_steps"] == 3
        assert config["protocol"]["settings"]["shots"] == 5
    add_to(tmp_path / "tuned.json", found)
    add_to(tmp_path / "tuned.json", found)
    (stored,) = presets.parse_presets((tmp_path / "tuned.json").read_text())
    assert stored.settings == {"max_steps": 3, **found.trials[0].settings}
    assert stored.source == presets.TuningRecord(
        command="protoreplay tune split-digits --method sgd --seeds 1 --tasks 2 --set max_steps=3 --set shots=5"
        " --vary lr=1e-5,1e-2",
        tasks=2,
        seeds=1,
        validation_avg=round(100 * found.trials[0].accuracy, 2),
        tried={"lr": [1e-5, 1e-2]} | {key: [type(value)(0), value] for key, value in AUGMENTATION.items()},
        fixed={"max_steps": 3, "shots": 5},
    )
    monkeypatch.setattr(presets, "preset_entries", lambda: [stored])
    spec = resolve("split-digits", "sgd@tuned", 0, {})
    assert spec.method_settings.lr == found.trials[0].settings["lr"]
    assert spec.variant == "sgd@tuned"


def result(values, best):
    return TuningResult(plan(), [Trial({"lr": best}, 0.5)], {"lr": values})


def test_a_best_value_at_the_edge_of_what_was_tried_is_said():
    (said,) = result([1e-3, 1e-2, 1e-1], 1e-3).edges()
    assert said == "the best lr, 0.001, is the smallest that was tried: widen the search with --vary lr=A,B"
    assert "0.1, is the largest" in result([1e-3, 1e-2, 1e-1], 0.1).edges()[0]
    assert result([1e-3, 1e-2, 1e-1], 1e-2).edges() == []
    assert result([1e-3], 1e-3).edges() == []
    assert result(["bce", "kl"], "kl").edges() == []
    assert result([False, True], True).edges() == []


@pytest.fixture
def _some_fail(monkeypatch):
    """Large rates break."""
    learn = SGD._learn

    def fail(self, task, on_step):
        if self.config.lr >= 1:
            raise RuntimeError("broken")
        learn(self, task, on_step)

    monkeypatch.setattr(SGD, "_learn", fail)


@pytest.mark.usefixtures("_some_fail")
def test_a_trial_that_fails_is_the_worst_and_loses_no_other(tmp_path):
    found = tune(plan(vary={"lr": ["7", "1e-2"]}), tmp_path)
    assert found.trials[0].settings["lr"] == found.trials[1].settings["lr"] == 1e-2
    assert found.trials[2] == Trial({"lr": 7.0}, None, "RuntimeError: broken")
    with pytest.raises(RunsFailedError, match="2 runs failed"):
        tune(plan(vary={"lr": ["7", "8"]}), tmp_path)


@pytest.mark.usefixtures("_some_fail")
def test_the_command_tells_failures_and_edges(tmp_path, monkeypatch, capsys):
    words = ["tune", "split-digits", "--method", "sgd", "--seeds", "1", "--tasks", "1", "--set", "epochs=2"]
    words += ["--vary", "lr=1e-2,1e-3,7", "--out", str(tmp_path / "runs"), "--store", str(tmp_path / "tuned.json")]
    monkeypatch.setattr("sys.argv", ["protoreplay", *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    told = capsys.readouterr()
    assert told.out.splitlines()[-1].split() == ["failed", "lr=7.0", "(RuntimeError:", "broken)"]
    (stored,) = presets.parse_presets((tmp_path / "tuned.json").read_text())
    assert ("is the smallest that was tried" in told.err) == (stored.settings["lr"] == 1e-3)
    assert f"use them with --methods sgd@{tmp_path / 'tuned.json'}" in told.err


def test_what_is_stored_is_a_preset_of_ones_own_with_what_was_fixed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    add_to(Path("mine.json"), tune(plan(vary={"lr": ["3e-2"]}), Path("runs")))
    spec = resolve("split-digits", "sgd@mine.json", 0, {})
    assert (spec.method_settings.lr, spec.method_settings.epochs, spec.variant) == (3e-2, 2, "sgd@mine.json")
    execute(resolve("split-digits", "sgd@mine.json", 0, {"tasks": 1}), Path("own"))
    assert [group.label for group in collect("own")[0]] == ["sgd@mine.json"]
    made = registry.make_method("sgd@mine.json", make_stream("split-digits"), batch_size=5)
    assert (made.config.lr, made.config.batch_size) == (3e-2, 5)
    Path("all.json").write_text('{"lr": 0.5}')
    assert resolve("permuted-digits", "sgd@all.json", 0, {}).method_settings.lr == 0.5
    for name, message in {
        "ewc@mine.json": "mine.json says nothing of ewc on split-digits; it has sgd on split-digits",
        "sgd@none.json": "none.json cannot be read: No such file or directory",
    }.items():
        with pytest.raises(UserError, match=message):
            resolve("split-digits", name, 0, {})
    Path("all.json").write_text('{"rate": 0.5}')
    with pytest.raises(UserError, match=r"unknown setting 'rate' of sgd@all\.json"):
        resolve("split-digits", "sgd@all.json", 0, {})


@pytest.mark.parametrize("name", list(registry.METHODS))
def test_methods_that_train_a_network_have_a_grid_of_at_most_twenty(name):
    method = registry.METHODS.get(name).method
    candidates = 1
    for values in method.search.values():
        candidates *= len(values)
    assert candidates <= 20
    assert bool(method.search) >= issubclass(method.Config, EncoderSettings)
    if method.search:
        assert TuningPlan("split-digits", name).grid() == {key: list(values) for key, values in method.search.items()}


def test_what_cannot_be_searched_is_one_line(tmp_path):
    with pytest.raises(UserError, match="tasks=9 cannot be set: give --tasks 9"):
        tune(plan(overrides={"tasks": "9"}), tmp_path)
    with pytest.raises(UserError, match="lr is both set and varied"):
        tune(plan(overrides={"lr": "1"}), tmp_path)
    with pytest.raises(UserError, match="sgd@tuned: name the method without a preset"):
        tune(plan("sgd@tuned"), tmp_path)
    with pytest.raises(UserError, match="nearest-mean has no settings to search: name some with --vary"):
        tune(TuningPlan("split-digits", "nearest-mean"), tmp_path)


def test_names_with_presets():
    with pytest.raises(
        UserError, match=r"unknown preset 'best' in sgd@best; known: authors, published, text, tuned, FILE\.json"
    ):
        resolve("split-digits", "sgd@best", 0, {})
    with pytest.raises(
        UserError, match="no tuned settings of joint for split-digits: find them with `protoreplay tune"
    ):
        resolve("split-digits", "joint@tuned", 0, {})


def test_published_settings_are_those_of_the_protocol(small_cache):
    assert resolve("split-cifar10", "sgd", 0, {}).method_settings.lr == 1e-2
    assert resolve("permuted-mnist", "sgd", 0, {}).method_settings.lr == 1e-3
    assert resolve("split-mini-imagenet", "sgd", 0, {}).method_settings.epochs == 20
    assert resolve("split-cifar10", "sgd", 0, {"lr": 0.5}).method_settings.lr == 0.5

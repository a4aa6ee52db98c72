import sys

import pytest

import protoreplay
from protoreplay import Results, UserError, bench
from protoreplay.experiments.grid import RunsFailedError
from protoreplay.methods.nearest_mean import NearestMean


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("session")
    return place, bench("split-digits", "nearest-mean,slda", seeds=2, out=place, progress=False, tasks=3)


def test_bench_is_a_function_that_gives_tables_and_frames(runs, capsys):
    place, found = runs
    bench("split-digits", ["joint"], [0], out=place, tasks=3, epochs=1)
    assert "1 of 1 runs" in capsys.readouterr().err
    again = bench("split-digits", ["nearest-mean", "slda"], [0, 1], out=place, progress=False, tasks=3)
    assert again.table("csv") == found.table("csv")  # of these runs alone
    assert {group.label for group in Results.read(str(place)).groups} == {"nearest-mean", "slda", "joint"}
    assert "slda" in found.table("latex", ["base", "novel", "hm"], "ci")
    assert "<td" in found._repr_html_()
    assert str(found) == found.table()
    frame = found.frame(["avg", "top5", "harmonic", "calibration_error"])
    assert list(frame.columns) == ["protocol", "method", "seed", "avg", "top5", "harmonic", "calibration_error"]
    assert len(frame) == 4
    means = frame.groupby("method")["avg"].mean()
    assert means.to_dict() == pytest.approx({group.label: group.summaries["avg"].mean for group in found.groups})
    assert frame["top5"].between(99.99, 100.01).all()
    with pytest.raises(UserError, match="unknown metric 'accuracy'"):
        found.frame(["accuracy"])


def test_on_features_of_a_frozen_encoder_and_with_chosen_seeds(tmp_path):
    found = bench(
        "split-digits",
        "ranpac,slda",
        "100-101",
        out=tmp_path,
        progress=False,
        frozen_encoder="random",
        tasks=2,
        shots=2,
    )
    assert {group.protocol for group in found.groups} == {"split-digits on random"}
    assert {result.config.seed for group in found.groups for result in group.results} == {100, 101}


def test_without_pandas_it_says_what_to_install(runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match="data frames need pandas"):
        runs[1].frame()


def test_a_failed_run_is_raised_and_the_others_are_there(tmp_path, monkeypatch):
    def broken(self, task, on_step):
        raise RuntimeError("broken")

    monkeypatch.setattr(NearestMean, "_learn", broken)
    with pytest.raises(RunsFailedError, match="1 run failed"):
        bench("split-digits", "nearest-mean,slda", [0], out=tmp_path, progress=False, tasks=1)
    assert [group.label for group in protoreplay.Results.read(tmp_path).groups] == ["slda"]


def test_in_a_notebook_there_are_bars_where_these_can_be_shown(monkeypatch):
    from rich.console import Console

    from protoreplay.core import terminal

    monkeypatch.setattr(Console, "is_jupyter", True, raising=False)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    for there, expected in ((None, "lines"), (object(), "bars")):
        monkeypatch.setattr(terminal.importlib.util, "find_spec", lambda name, there=there: there)
        assert terminal.pick_view(lambda console: "bars", lambda: "lines") == expected

import csv
import json
import shutil
import sys

import pytest

from protoreplay import cli
from protoreplay.analysis import latent
from protoreplay.analysis.kept_runs import find_kept_runs
from protoreplay.analysis.motion import read_motion
from protoreplay.core.errors import UserError
from protoreplay.experiments.grid import execute_grid
from protoreplay.experiments.spec import resolve_grid
from protoreplay.report import analysis_page as analyses

QUICK = {"tasks": 4, "filters": 20, "latent": 12}
NAMES = ("maps", "motion", "moved", "similarity", "confidence", "calibration", "forgetting", "confusion")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    root = tmp_path_factory.mktemp("kept")
    execute_grid(resolve_grid("split-digits", ["vpr"], [0, 1], QUICK, keep=True), root)
    return root


@pytest.fixture(scope="module")
def inside(kept, tmp_path_factory):
    folder = tmp_path_factory.mktemp("inside")
    return folder, analyses.write_analysis_page(find_kept_runs(kept, "vpr"), folder / "out", "lite0@32")


def rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_every_analysis_is_a_figure_its_numbers_and_a_part_of_the_page(kept, inside):
    tmp_path, written = inside
    expected = {f"{name}.{ending}" for name in NAMES for ending in ("png", "pdf", "csv")}
    assert {path.name for path in written} == expected | {"analysis.html", "seeds.csv", "motion.json"}
    assert all(path.stat().st_size for path in written)
    page = (tmp_path / "out/analysis.html").read_text()
    assert page.count("<svg") == len(NAMES)
    assert "Inside vpr on split-digits" in page
    seeds = rows(tmp_path / "out/seeds.csv")
    assert [row["seed"] for row in seeds] == ["0", "1", "mean"]
    run = find_kept_runs(kept, "vpr")[0]
    axes = latent.principal_axes(run.snapshots[0].images, 3)
    place = axes.project(latent.prototype_paths(run.snapshots)[0].means)[-1]
    last = next(row for row in rows(tmp_path / "out/motion.csv") if (row["class"], row["task"]) == ("0", "4"))
    assert [float(last[f"axis_{n}"]) for n in (1, 2, 3)] == pytest.approx(place.tolist())
    assert {row["task"] for row in rows(tmp_path / "out/maps.csv")} == {"1", "3", "4"}
    assert len(rows(tmp_path / "out/similarity.csv")) == 4 * 3 // 2  # the last class has not moved


def test_maps_show_training_images_or_test_images(kept, inside, tmp_path):
    def first_map(folder):
        return [row["of"] for row in rows(folder / "maps.csv") if (row["map"], row["task"]) == ("PCA", "1")]

    assert first_map(inside[0] / "out") == ["training image"] * 20 + ["prototype"] * 2
    analyses.write_analysis_page(find_kept_runs(kept, "vpr")[:1], tmp_path, "lite0@32", "test")
    assert set(first_map(tmp_path)) == {"test image", "prototype"}
    assert len(first_map(tmp_path)) > 50


def test_what_moved_is_written_for_the_claims(inside, tmp_path):
    record = read_motion([tmp_path / "nothing", inside[0] / "out"])
    seeds = rows(inside[0] / "out/seeds.csv")[:2]
    assert record.correlation == {int(row["seed"]): pytest.approx(float(row["r"]), abs=1e-5) for row in seeds}
    assert (record.method.name, record.encoder) == ("vpr", "lite0@32")
    (tmp_path / "motion.json").write_text("{}")
    with pytest.raises(UserError, match=r"motion.json was not written by `protoreplay analyze`"):
        read_motion([tmp_path])


def test_what_cannot_be_analysed_is_said_in_one_line(kept, tmp_path, monkeypatch, capsys):
    plain = tmp_path / "plain"
    execute_grid(resolve_grid("split-digits", ["nearest-mean"], [0], {"tasks": 2}), plain)
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/config.json").write_text(json.dumps({"model": "of another tool"}))
    cases = {
        "empty": "has no runs: give a folder that `protoreplay run` or `bench` wrote to",
        "missing": "is not a folder: give one that",
        "other": "is not the configuration of a run",
        "plain": "has no finished run with kept prototypes: run a method with --keep-prototypes",
    }
    for name, message in cases.items():
        monkeypatch.setattr(sys, "argv", ["protoreplay", "analyze", str(tmp_path / name), "-o", str(tmp_path / "out")])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        error = capsys.readouterr().err
        assert stop.value.code == 2
        assert message in error
        assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="unknown method 'vpr-paper' among the runs"):
        find_kept_runs(kept, "vpr-paper")


def test_several_settings_of_a_method_are_not_mixed(kept, tmp_path):
    for ridge in (1, 2):
        execute_grid(
            resolve_grid("split-digits", ["vpr"], [0], {**QUICK, "tasks": 1, "ridge": ridge}, keep=True), tmp_path
        )
    with pytest.raises(UserError, match="has vpr with several settings or protocols"):
        find_kept_runs(tmp_path, "vpr")


def test_a_damaged_file_is_named(kept, tmp_path):
    shutil.copytree(kept, tmp_path / "copy")
    broken = next((tmp_path / "copy").rglob("task-002.safetensors"))
    broken.write_bytes(broken.read_bytes()[:50])
    with pytest.raises(UserError, match=r"task-002.safetensors is damaged"):
        find_kept_runs(tmp_path / "copy", "vpr")

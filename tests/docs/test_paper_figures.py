import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import paper_figures
import pytest
import record
import results_readme

from protoreplay import cli
from protoreplay.analysis import claims
from protoreplay.experiments.grid import execute_grid
from protoreplay.experiments.spec import resolve_grid
from protoreplay.report import analysis_page
from tests.report.fakes import fake_run

ROOT = Path(__file__).parents[2]
PAPER = {**claims.PAPER, "epochs": 50, "lr": 0.01}
NINE = {"protocol": "split-cifar10", "known_classes": list(range(2, 11))}
FALLING = [70, 50, 40, 30, 25, 20, 18, 15, 12]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Invented counts of the paper's methods and two ablations, and real runs on digits that kept their prototypes."""
    root = tmp_path_factory.mktemp("recorded")
    for number, method in enumerate(("vpr-paper", *claims.COMPARED)):
        for seed in range(3):
            settings = PAPER if method == "vpr-paper" else {"epochs": 50}
            curve = [max(1, value - number + seed) for value in FALLING]
            fake_run(root / f"bench/{method}-{seed}", method, seed, curve, settings, **NINE)
    for name, change in {"full": {}, "a": {"weighted": False}, "b": {"recall": "mean"}}.items():
        for seed in range(3):
            curve = [value - 2 * len(change) + seed for value in FALLING]
            fake_run(root / f"ablate/{name}-{seed}", "vpr-paper", seed, curve, {**PAPER, **change}, **NINE)
    record.record(root / "bench", root / "results/split-cifar10", "protoreplay bench split-cifar10 --seeds 3")
    record.record(root / "ablate", root / "results/ablations", "protoreplay ablate split-cifar10 --seeds 3")
    quick = {"tasks": 4, "epochs": 2, "samples": 3, "dim": 6}
    execute_grid(resolve_grid("split-digits", ["vpr-paper"], [0, 1], quick, keep=True), root / "kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysis_page.visual, "class_features", lambda stream, classes, name: FEATURES[: len(classes)])
        paper_figures.record_motion(root / "kept", root / "results/prototype-motion", "protoreplay bench split-digits")
    # As if they were the paper's.
    path = root / "results/prototype-motion/motion.json"
    found = json.loads(path.read_text())
    found["protocol"], found["known_classes"] = (
        {"name": "split-cifar10", "settings": {"shots": 10}},
        NINE["known_classes"],
    )
    found["method"]["settings"] |= PAPER
    path.write_text(json.dumps(found))
    return root / "results"


FEATURES = np.array([[0.0, 1.0], [2.0, 0.5], [1.0, 3.0], [4.0, 4.0], [0.5, 0.2]])


def test_every_figure_is_drawn_and_says_its_seeds_and_its_command(recorded, tmp_path):
    paper_figures.write(recorded, tmp_path)
    page = (tmp_path / "paper.md").read_text()
    for name in ("accuracy", "maps", "ablations", "motion", "similarity"):
        drawn = tmp_path / f"paper/{name}.svg"
        assert f"](paper/{name}.svg)" in page
        assert ET.fromstring(drawn.read_text()).tag.endswith("svg")
        assert drawn.stat().st_size < 200_000
    assert "Seeds: 0-2. Made by `protoreplay bench split-cifar10 --seeds 3`" in page
    assert "Seeds: 0-2. Made by `protoreplay ablate split-cifar10 --seeds 3`" in page
    assert "Over 2 seeds the correlation is " in page
    assert "Not recorded yet" not in page


def test_small_numbers_are_recorded_of_kept_prototypes(recorded):
    folder = recorded / "prototype-motion"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 50_000
    found = json.loads((folder / "motion.json").read_text())
    assert found["outward"].keys() == found["correlation"].keys() == {"0", "1"}
    rows = (folder / "maps.csv").read_text().splitlines()
    assert sum(row.startswith("t-SNE,3,training image,") for row in rows) == 4 * 10
    assert sum(row.startswith("t-SNE,3,prototype,") for row in rows) == 4


def test_what_is_not_recorded_is_said_and_its_old_figure_goes(recorded, tmp_path):
    paper_figures.write(recorded, tmp_path)
    paper_figures.write(tmp_path / "nothing", tmp_path)
    assert (tmp_path / "paper.md").read_text().count("Not recorded yet.") == 5
    assert list((tmp_path / "paper").iterdir()) == []


def test_runs_that_are_not_the_papers_form_are_not_drawn(recorded, tmp_path):
    configs = recorded / "split-cifar10/configs.json"
    before = configs.read_text()
    configs.write_text(before.replace('"optimizer": "adam"', '"optimizer": "sgd"'))
    try:
        assert paper_figures.paper_figures(recorded)[0].figure is not None  # the ablations hold the full form too
        (recorded / "ablations").rename(tmp_path / "ablations")
        assert paper_figures.paper_figures(recorded)[0].figure is None
    finally:
        (tmp_path / "ablations").rename(recorded / "ablations")
        configs.write_text(before)


def test_motion_of_another_form_is_not_drawn(recorded):
    path = recorded / "prototype-motion/motion.json"
    before = path.read_text()
    path.write_text(before.replace("split-cifar10", "split-digits"))
    try:
        drawn = {one.name for one in paper_figures.paper_figures(recorded) if one.figure}
    finally:
        path.write_text(before)
    assert drawn == {"accuracy", "ablations"}


def test_claims_of_several_recorded_folders_are_judged_together(recorded):
    page = results_readme.page(recorded)
    assert "| VPR is ahead of L2 on average over the nine tasks | **" in page
    assert "| Unweighted distance (NoWeightEucli) is worse | **" in page
    assert "- [Prototype motion](prototype-motion/README.md)" in page


def test_the_command_reads_recorded_folders_and_motion(recorded, capsys, monkeypatch):
    folders = [str(recorded / name) for name in ("split-cifar10", "ablations", "prototype-motion")]
    monkeypatch.setattr(sys, "argv", ["protoreplay", "table", *folders, "--claims", "--format", "json"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    signs = {row["claim"]: row["sign"] for row in json.loads(capsys.readouterr().out)}
    measured = {claim for claim, sign in signs.items() if sign != "not measured"}
    assert {
        "VPR is ahead of L2 on average over the nine tasks",
        "Unweighted distance (NoWeightEucli) is worse",
    } <= measured
    assert "Prototypes move away from the centre" in measured


def test_the_page_of_the_paper_is_up_to_date():
    figures = paper_figures.paper_figures(ROOT / "results")
    text = paper_figures.page(ROOT / "results", figures)
    assert (ROOT / "docs/paper.md").read_text() == text, "run python tools/paper_figures.py"
    drawn = {path.stem for path in (ROOT / "docs/paper").glob("*.svg")}
    assert drawn == {one.name for one in figures if one.figure}

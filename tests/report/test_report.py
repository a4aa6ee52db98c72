import base64
import json
import re

import pytest

from protoreplay.evaluation import Count
from protoreplay.experiments.folder import RunFolder
from protoreplay.report import table
from protoreplay.report.page import write_page
from protoreplay.report.results import collect


def fake_run(path, method, seed, accuracies, settings=None, protocol="split-digits", finished=True):
    """A run folder with given accuracies (in percent of 100 images) on one new class after each task."""
    folder = RunFolder(path)
    with folder.locked():
        config = {
            "protocol": {"name": protocol, "settings": {"shots": 10}},
            "method": {"name": method, "settings": settings or {}},
            "seed": seed,
            "evaluation": "test",
            "known_classes": [task + 1 for task in range(len(accuracies))],
            "versions": {"protoreplay": "0"},
        }
        folder.start(config, [])
        rows = [Count(i, j, 100, value) for i, value in enumerate(accuracies, 1) for j in range(1, i + 1)]
        folder.write_counts(rows if finished else rows[:-1])
        kept = [{"name": "network", "numbers": 10, "bytes": 40}, {"name": "memory", "numbers": 5, "bytes": 5}]
        folder.append_event({"task": 1, "learn_seconds": 1.0, "test_seconds": 0.5, "kept": kept})
        folder.clean()


@pytest.fixture
def runs(tmp_path):
    root = tmp_path / "runs"
    for seed, shift in enumerate((-10, 0, 10)):
        fake_run(root / f"good/{seed}", "good", seed, [90 + shift, 80 + shift])
        fake_run(root / f"bad/{seed}", "bad", seed, [50 + shift, 30 + shift])
    return root


def test_rows_are_hand_computed_means(runs):
    groups, unfinished = collect(runs)
    good, bad = table.rows(groups)
    assert unfinished == 0
    assert (good.method, good.seeds, good.avg, good.avg_std, good.final, good.final_std) == ("good", 3, 85, 10, 80, 10)
    assert good.forgetting == 10
    assert (good.seconds, good.kept_numbers, good.kept_bytes) == (1.5, 15, 45)
    assert bad.method == "bad"


def test_one_seed_has_no_deviation(tmp_path):
    fake_run(tmp_path / "a", "only", 0, [70])
    rows = table.rows(collect(tmp_path)[0])
    assert rows[0].avg_std is None
    assert json.loads(table.as_json(rows))[0]["avg_std"] is None
    assert table.as_text(rows).splitlines()[2].split()[:3] == ["only", "1", "70.0"]


def test_unfinished_runs_are_counted_not_shown(runs):
    fake_run(runs / "half", "half", 0, [90, 80], finished=False)
    groups, unfinished = collect(runs)
    assert [group.label for group in groups] == ["good", "bad"]
    assert unfinished == 1


def test_settings_that_differ_are_in_the_label(tmp_path):
    for tau in (1, 2):
        fake_run(tmp_path / str(tau), "vpr", 0, [50 + tau], {"tau": tau, "dim": 5})
    assert [group.label for group in collect(tmp_path)[0]] == ["vpr tau=2", "vpr tau=1"]


def test_several_protocols_get_a_column_and_a_section_each(runs, tmp_path):
    fake_run(runs / "other", "good", 0, [90, 80], protocol="permuted-digits")
    groups, _ = collect(runs)
    assert table.as_text(table.rows(groups)).splitlines()[0].startswith("protocol ")
    written = write_page(groups, 0, tmp_path / "report.html")
    assert [path.name for path in written[1:]] == [
        "report-permuted-digits-accuracy.png",
        "report-split-digits-accuracy.png",
    ]
    assert written[0].read_text().count("<h2>") == 3


def test_the_page_is_self_contained(runs, tmp_path):
    fake_run(runs / "evil", "<script>alert(1)</script>", 0, [40, 20])
    page, picture = write_page(*collect(runs), tmp_path / "new" / "report.html")
    html = page.read_text()
    assert "<script" not in html
    assert not re.search(r"""(src|href)=["'](?!data:)""", html)
    embedded = re.search(r"base64,([^\"]+)", html).group(1)
    assert base64.b64decode(embedded) == picture.read_bytes()
    assert picture.read_bytes().startswith(b"\x89PNG")
    for number in ("85.0 ± 10.0", "30.0 ± 10.0"):
        assert number in html


def test_formats_agree(runs):
    rows = table.rows(collect(runs)[0])
    parsed = json.loads(table.as_json(rows))
    header, *lines = table.as_csv(rows).splitlines()
    assert [dict(zip(header.split(","), line.split(",")))["avg"] for line in lines] == [str(r["avg"]) for r in parsed]
    text, markdown = table.as_text(rows).splitlines(), table.as_markdown(rows).splitlines()
    assert len({len(line) for line in text}) == 1
    assert len(text) == len(markdown) == 2 + len(rows)

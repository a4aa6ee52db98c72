import json
import shutil
import sys
from pathlib import Path

import pytest
import record
import recorded as records
import results_readme

from protoreplay import cli
from protoreplay.analysis import claims
from tests.report.fakes import fake_run

ROOT = Path(__file__).parent.parent.parent

NINE = list(range(2, 11))


def recorded(tmp_path, name, runs):
    """A folder of results in which methods have given accuracies over two seeds."""
    for method, (accuracies, kept, settings) in runs.items():
        for seed in (0, 1):
            values = [value + seed for value in accuracies]
            config = {"protocol": "split-cifar10", "known_classes": NINE} if len(values) == 9 else {}
            path = tmp_path / "runs" / name / method / str(seed)
            fake_run(path, method.split()[0], seed, values, settings, kept=kept, **config)
    record.record(tmp_path / "runs" / name, tmp_path / "results" / name, f"protoreplay bench {name}")
    return tmp_path / "results"


@pytest.fixture
def cifar(tmp_path):
    paper = dict(claims.PAPER)
    runs = {
        "vpr": ([60] * 8 + [40], 100, {}),
        "vpr-paper": ([30] * 9, 50, paper),
        "l2": ([20] * 9, 60, {}),
        "joint": ([70] * 9, 1000, {}),
    }
    return recorded(tmp_path, "split-cifar10", runs)


def test_every_number_comes_from_the_counts(cifar):
    page = results_readme.page(cifar, "")
    assert "| method | split-cifar10 (seeds: 2) avg | final | permuted-mnist (not recorded yet) avg |" in page
    assert "| joint | 70.5 ± 0.7 | 70.5 ± 0.7 |" in page
    assert "| vpr | 58.3 ± 0.7 | 40.5 ± 0.7 |" in page
    counts = cifar / "split-cifar10" / "counts.csv"
    counts.write_text(counts.read_text().replace("joint,0,9,9,100,70", "joint,0,9,9,100,0"))
    assert "| joint | 70.1 ±" in results_readme.page(cifar, "")
    lines = counts.read_text().splitlines(keepends=True)
    counts.write_text("".join(line for line in lines if not line.startswith("joint,1")))
    assert "| joint | 69.1 | 62.2 (seeds: 1) |" in results_readme.page(cifar, "")


def test_what_is_not_recorded_is_said(cifar):
    page = results_readme.page(cifar, "../results/")
    assert "## permuted-mnist\n\nNot recorded yet." in page
    assert "[split-cifar10](../results/split-cifar10/README.md)" in page
    assert "Not recorded yet" in results_readme.page(cifar / "nothing", "")


def test_where_vpr_stands_among_those_that_keep_no_more(cifar):
    page = results_readme.page(cifar, "")
    # Not above joint, which keeps more.
    assert "It stands above all 2 methods that keep no more; above the nearest, `vpr-paper` by 27.8 points" in page


def test_what_stands_above_vpr_is_named(tmp_path):
    runs = {"vpr": ([60, 40], 100, {}), "slda": ([80, 80], 50, {}), "sgd": ([10, 10], 50, {})}
    results = recorded(tmp_path, "permuted-mnist", runs)
    assert "Of 2 that keep no more, 1 above it: `slda` by 30.0 points" in results_readme.page(results, "")


def test_settings_that_are_not_the_published_ones_are_named(tmp_path):
    runs = {"l2": ([60] * 9, 100, {"max_steps": 7, "lr": 1e-3}), "replay": ([50] * 9, 50, {"max_steps": 7})}
    page = results_readme.page(recorded(tmp_path, "split-cifar10", runs | {"vpr": ([20] * 9, 50, {})}), "")
    assert "Other than published: `max_steps=7` (l2, replay). " in page
    page = results_readme.page(recorded(tmp_path / "all", "split-cifar10", runs), "")
    assert "Other than published: `max_steps=7` (all). " in page


def test_methods_that_were_not_run_are_named(cifar):
    assert "Not run: `vpr-linear`, `sgd`, `ewc`, `online-ewc`, " in results_readme.page(cifar, "")


def test_claims_are_held_against_what_is_recorded(cifar):
    claimed = "| VPR is ahead of L2 on average over the nine tasks | **undecided** | **no** | +2.5 points | +10.0 |"
    page = results_readme.page(cifar, "")
    assert claimed in page
    assert "The claim that VPR has the highest average accuracy of all compared methods is not measured here." in page
    assert "of both counted | **holds** | **no** | 33 % fewer | +15.4 % |" in page
    (cifar / "split-cifar10" / "configs.json").unlink()
    page = results_readme.page(cifar, "")
    assert "| VPR is ahead of L2 on average over the nine tasks | **not measured** |" in page
    assert "| joint | 70.5 ± 0.7 |" in page


def test_other_folders_have_tables_and_links(cifar, tmp_path):
    recorded(tmp_path, "ridge", {"vpr": ([60, 50], 10, {})})
    shutil.copytree(ROOT / "results" / "speed", cifar / "speed")
    page = results_readme.page(cifar, "")
    assert "## ridge" in page
    assert "- [Speed](speed/README.md)" in page


def test_a_real_bench_is_recorded_and_shown(tmp_path, monkeypatch):
    out = tmp_path / "runs"
    command = f"protoreplay bench split-digits --methods nearest-mean --seeds 2 --set tasks=2 --out {out}"
    monkeypatch.setattr(sys, "argv", command.split())
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    record.record(out, tmp_path / "results" / "digits", "protoreplay bench split-digits")
    shown = json.loads((tmp_path / "results/digits/table.json").read_text())[0]["avg"]
    assert f"| nearest-mean | 2 | {shown:.1f} ±" in results_readme.page(tmp_path / "results", "")


def test_the_pages_are_up_to_date():
    pages = {"README.md": results_readme.story(ROOT / "results"), "DETAILS.md": results_readme.page(ROOT / "results")}
    for name, text in pages.items():
        assert (ROOT / "results" / name).read_text() == text, "run python tools/results_readme.py"


def test_the_story_is_told_with_the_recorded_numbers(cifar, tmp_path):
    """Where the counts change, its numbers do; what is not recorded is left out or named."""
    said = results_readme.story(cifar)
    assert "| vpr | variational prototypes on a frozen body, replay in closed form (ours) | 58.3 ± 0.7 |" in said
    assert "[All 32 claims](DETAILS.md#what-the-paper-claims-what-we-measured)" in said
    assert "## What each change is worth\n\nNot recorded yet." in said
    assert "One hundred labels" not in said
    for folder, runs in {
        "split-cifar10-100-labels": {"vpr": ([45], 10, {})},
        "permuted-mnist": {"vpr": ([90, 80], 10, {})},
        "permuted-mnist-not-aligned": {"vpr": ([70, 60], 10, {"domains": "own"})},
        "encoder-split-cifar10": {"vpr": ([80] * 2, 10, {}), "acil": ([70] * 2, 10, {}), "replay": ([75] * 2, 9, {})},
    }.items():
        recorded(tmp_path, folder, runs)
    said = results_readme.story(cifar, "all.md", "results/", drawn=True)
    assert "`vpr` reaches 45.5 ± 0.7 on the test set (2 seeds, 95 % interval" in said
    assert "undoes the permutation: 85.5 ± 0.7 avg" in said
    assert "in each task, it has 65.5 ± 0.7" in said
    assert "on split-cifar10 80.5 ± 0.7 avg, +10.0 [+10.0, +10.0] points to `acil`" in said
    assert "](results/split-cifar10-100-labels/README.md)" in said


def test_only_small_text_is_recorded():
    kinds = {path.suffix for path in (ROOT / "results").rglob("*") if path.is_file()}
    assert kinds <= {".md", ".csv", ".json", ".txt"}


def test_pages_with_figures_are_made_of_what_is_recorded(cifar, tmp_path):
    folder = cifar / "split-cifar10"
    pages = records.recorded_pages(folder)
    assert list(pages) == records.page_names(folder) == ["report.html"]
    assert b"58.3 \xc2\xb1 0.7" in pages["report.html"]
    assert b"Accuracy after each task" in pages["report.html"]
    assert b"Time per run" not in pages["report.html"]
    assert "figures: [report](results/split-cifar10/report.html)" in results_readme.page(cifar, "results/", drawn=True)
    assert "figures:" not in results_readme.page(cifar)


def test_ablations_are_known_by_their_settings(tmp_path):
    usual = {"mirror": True, "weighting": "covariance", "shrink": 0.7}
    runs = {"vpr": usual, "vpr a": usual | {"weighting": "none"}, "vpr b": usual | {"mirror": False}}
    results = recorded(tmp_path, "ablations", {name: ([60] * 2, 10, settings) for name, settings in runs.items()})
    (found,) = records.recorded_ablations(records.recorded_groups(results / "ablations")).items()
    assert found[0] == "vpr"
    assert [one.ablation.name for one in found[1]] == ["", "not weighted", "features not mirrored"]
    assert b"features not mirrored" in records.recorded_pages(results / "ablations")["ablations.html"]


def test_the_readme_says_what_is_recorded():
    readme = (ROOT / "README.md").read_text()
    for name in results_readme.PROTOCOLS:
        groups = {group.label: group for group in records.recorded_groups(ROOT / "results" / name)}
        avg = {label: group.summaries["avg"].mean for label, group in groups.items()}
        seeds, best = len(groups["vpr"].results), max(avg.keys() - {"vpr"}, key=avg.__getitem__)
        row = next(line for line in readme.splitlines() if line.startswith(f"| {name}"))
        cells = f"| {seeds} | {avg['vpr']:.1f} | {best} {avg[best]:.1f} | {avg['vpr-paper']:.1f} |"
        assert row.endswith(cells), f"README.md says {row}"


def test_the_sentences_of_the_readme_have_recorded_numbers():
    def average(folder, label):
        groups = {group.label: group.summaries["avg"] for group in records.recorded_groups(ROOT / "results" / folder)}
        others = [one.mean for name, one in groups.items() if name not in ("vpr", "logistic")]
        return max(others) if label == "best" else groups[label].mean

    body, labels = "dictionary-split-cifar10", records.recorded_groups(ROOT / "results/split-cifar10-100-labels")[0]
    summary, readme = labels.summaries["avg"], " ".join((ROOT / "README.md").read_text().split())
    for said in (
        f"without that it has {average('permuted-mnist-not-aligned', 'vpr'):.1f}",
        f"`vpr` has {average(body, 'vpr'):.1f}, the best other closed form {average(body, 'best'):.1f}",
        f"a linear discriminant {average(body, 'slda'):.1f}",
        f"no pretraining: {summary.mean:.1f} ± {summary.std:.1f} over {len(labels.results)} seeds",
    ):
        assert said in readme, said


def test_a_ladder_is_shown_with_its_figure_and_table(tmp_path):
    linear = {"body": "dictionary", "steps": 5}
    runs = {
        "vpr-paper": ([30] * 3, 10, {"trunk": "frozen"}),
        "vpr-linear images": ([40] * 3, 10, {**linear, "replay": "images"}),
        "vpr-linear means": ([50] * 3, 10, {**linear, "replay": "means", "steps": 30, "lr": 3e-5}),
        "vpr": ([60] * 3, 10, {}),
    }
    results = recorded(tmp_path, "ladder-split-cifar10", runs)
    folder = results / "ladder-split-cifar10"
    assert records.page_names(folder) == ["report.html", "ladder.html"]
    assert b"2. head trained, stored images replayed" in records.recorded_pages(folder)["ladder.html"]
    assert records.ladder_drawing(folder).startswith(b"<?xml")
    said = records.ladder_markdown(folder, "there.svg")
    assert "](there.svg)" in said
    assert "| 3. prototype means replayed instead | 2 | 50.5 | +10.0 | [+10.0, +10.0] |" in said
    assert (
        records.ladder_markdown(results / "ladder-none", "x.svg")
        == "Nothing is recorded under results/ladder-none yet."
    )

import csv

import pytest

from protoreplay.analysis.ablations import ABLATED_METHODS, ABLATIONS, plan_ablations
from protoreplay.analysis.claims import CLAIMS
from protoreplay.analysis.results import collect
from protoreplay.core.errors import UserError
from protoreplay.experiments.grid import execute_grid
from protoreplay.experiments.grid_queue import run_path
from protoreplay.report import ablation_page as ablations
from protoreplay.report.figures import render_figure
from tests.report.fakes import fake_run

QUICK = {"tasks": 2, "filters": 10}


def names(protocol):
    return {(one.ablation.method, one.ablation.name) for one in plan_ablations(protocol, ABLATED_METHODS, [0], {})}


def test_every_ablation_claim_of_the_paper_is_an_ablation():
    listed = [ablation.settings for ablation in ABLATIONS if ablation.method == "vpr-paper"]
    assert all(claim.change in listed for claim in CLAIMS if claim.change)


def test_what_changes_nothing_or_belongs_to_other_protocols_is_left_out():
    digits, permuted = names("split-digits"), names("permuted-digits")
    assert ("vpr", "no augmented views") not in digits  # the digits' preset has none
    assert ("vpr", "one prototype a class") in permuted - digits
    assert ("vpr", "prototypes not shrunk") in digits - permuted
    assert {("vpr", ""), ("vpr-paper", ""), ("vpr-paper", "Z = 2")} <= digits & permuted


def test_settings_reach_the_methods_that_have_them():
    planned = plan_ablations("split-digits", ABLATED_METHODS, [0, 1], {"epochs": 7, "tasks": 3, "samples": 5})
    by_name = {one.ablation.name: one.specs for one in planned if one.ablation.method == "vpr-paper"}
    assert [spec.seed for spec in by_name[""]] == [0, 1]
    assert {spec.stream_settings.tasks for one in planned for spec in one.specs} == {3}
    assert by_name["fused replay"][0].method_settings.epochs == 7
    assert by_name["fused replay"][0].method_settings.samples == 5
    assert by_name["Z = 2"][0].method_settings.samples == 2
    with pytest.raises(UserError, match="unknown setting 'epoch'"):
        plan_ablations("split-digits", ABLATED_METHODS, [0], {"epoch": 7})


def test_ablations_are_asked_for_by_our_name_or_the_papers():
    def asked(*only):
        planned = plan_ablations("split-digits", ["vpr-paper"], [0], {}, only=only)
        return [one.ablation.title for one in planned]

    assert asked("NoWeightEucli", "z = 2") == ["", "unweighted distance (NoWeightEucli)", "Z = 2 (numProto2)"]
    assert asked("fused replay") == ["", "fused replay"]
    with pytest.raises(UserError, match=r"unknown ablation 'recalMeen' \(did you mean recalMean\?\)"):
        asked("recalMeen")


def test_all_names_of_the_papers_figure_are_known():
    aliases = {ablation.alias for ablation in ABLATIONS if ablation.alias}
    sizes = {*(f"numProto{n}" for n in (100, 20, 2)), *(f"repSz{n}" for n in (1000, 100, 10))}
    assert aliases == {"NoWeightEucli", "replaySeqBack", "replaySeqCurr", "recalMean", "recalVar"} | sizes


def test_the_figure_shows_the_papers_numbers_beside_ours(tmp_path):
    settings = {"weighted": True, "recall": "both"}
    changes = {"": {}, "NoWeightEucli": {"weighted": False}, "recalMean": {"recall": "mean"}}
    measured = []
    for number, (alias, change) in enumerate(changes.items()):
        for seed in range(3):
            fake_run(tmp_path / f"{number}-{seed}", "vpr-paper", seed, [50 - 3 * number + seed], {**settings, **change})
        group = next(g for g in collect(tmp_path)[0] if (settings | change).items() <= settings_of(g).items())
        ablation = next(a for a in ABLATIONS if a.method == "vpr-paper" and a.alias == alias)
        measured.append(ablations.MeasuredAblation(ablation, group))
    for narrow in (False, True):
        svg = render_figure(ablations.ablation_figure(measured, narrow), "svg", inline=True).decode()
        assert "the paper's number" in svg
        assert svg.count(">-1.2<") == 1
        assert "recalMean" in svg
    assert [row["alias"] for row in ablations.ablation_table(measured).records] == list(changes)


def settings_of(group):
    return group.results[0].config.method.settings


def test_the_table_holds_paired_differences_and_the_page_what_was_drawn(tmp_path):
    planned = [
        one
        for one in plan_ablations("split-digits", ["vpr"], [0, 1, 2], QUICK)
        if one.ablation.name in ("", "not weighted")
    ]
    execute_grid([spec for one in planned for spec in one.specs], tmp_path)
    found = ablations.measured_ablations(planned, tmp_path)
    full, other = found["vpr"]
    rows = ablations.ablation_table(found["vpr"]).records
    differences = [other.group.values["avg"][seed] - full.group.values["avg"][seed] for seed in (0, 1, 2)]
    assert rows[1]["avg_difference"] == pytest.approx(sum(differences) / 3)
    assert rows[1]["avg_low"] < rows[1]["avg_difference"] < rows[1]["avg_high"]
    assert rows[0]["avg_difference"] is None
    written = ablations.write_ablation_page(found, tmp_path)
    assert {path.name for path in written} == {
        "ablations.html",
        *(f"ablations-vpr.{ending}" for ending in ("png", "pdf", "csv")),
    }
    stored = list(csv.DictReader((tmp_path / "ablations-vpr.csv").read_text().splitlines()))
    assert [row["ablation"] for row in stored] == ["full", "not weighted"]
    page = (tmp_path / "ablations.html").read_text()
    assert page.count("<svg") == 2
    assert "not weighted" in page


def test_an_ablation_without_finished_runs_is_left_out(tmp_path):
    planned = plan_ablations("split-digits", ["vpr"], [0], QUICK)
    assert ablations.measured_ablations(planned, tmp_path) == {}
    execute_grid(planned[0].specs, tmp_path)
    (found,) = ablations.measured_ablations(planned, tmp_path)["vpr"]
    assert found.label == "vpr in full"
    assert run_path(tmp_path, planned[0].specs[0]).is_dir()

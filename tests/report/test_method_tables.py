import csv
import io
import json
import re

import pytest

from protoreplay.analysis.results import METRICS, collect
from protoreplay.core.errors import UserError
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.report import formats, method_tables
from protoreplay.report.formats import Cell, Table
from protoreplay.report.html_parts import table_element
from tests.report.fakes import fake_run, many_runs


def test_lines_are_hand_computed_means(runs):
    good, bad = method_tables.results_table(collect(str(runs))[0]).records
    assert (good["method"], good["seeds"], good["avg"], good["avg_std"], good["final"]) == ("good", 3, 85, 10, 80)
    assert good["avg_sem"] == pytest.approx(10 / 3**0.5, abs=1e-3)
    assert (good["avg_low"], good["avg_high"]) == pytest.approx((85 - 24.841, 85 + 24.841), abs=1e-3)
    assert (good["forgetting"], good["backward_transfer"], good["performance_drop"]) == (10, -10, 10)
    assert (good["seconds"], good["kept_numbers"], good["kept_bytes"]) == (1.5, 15, 45)
    assert bad["method"] == "bad"


def test_one_seed_has_no_deviation_and_no_marks(tmp_path):
    fake_run(tmp_path / "a", "only", 0, [70])
    fake_run(tmp_path / "b", "other", 0, [60])
    made = method_tables.results_table(collect(tmp_path)[0])
    assert json.loads(formats.table_as_json(made))[0]["avg_std"] is None
    assert formats.table_as_text(made).splitlines()[2].split()[:3] == ["only", "1", "70.0"]
    assert made.note == "Bold: the best of each column."
    assert "^: the best of each column." in formats.table_as_text(made)


def test_the_best_of_each_column_stands_out_in_every_format(tmp_path):
    fake_run(tmp_path / "a", "steady", 0, [70, 50])
    fake_run(tmp_path / "b", "early", 0, [90, 40])
    made = method_tables.results_table(collect(tmp_path)[0], ["avg", "final", "performance_drop", "kept_numbers"])
    assert [[cell.strong for cell in line] for line in made.body] == [
        [False, False, True, False, False, False],
        [False, False, False, True, True, False],  # both keep as much, so neither is best
    ]
    assert [record["final_best"] for record in made.records] == [False, True]
    assert formats.table_as_text(made).count(" ^") == 3
    assert formats.table_as_markdown(made).count("**") == 6
    assert formats.table_as_latex(made).count("textbf") == 3
    html = table_element(made, "Means over seeds")
    assert len(re.findall(r'<td class="[a-z ]*strong">', html)) == 3
    told = [formats.table_as_text(made).replace("^:", "Bold:"), formats.table_as_markdown(made)]
    assert all("Bold: the best of each column." in one for one in (*told, formats.table_as_latex(made), html))
    lines = list(csv.DictReader(io.StringIO(formats.table_as_csv(made))))
    assert [line["final_best"] for line in lines] == ["False", "True"]


def test_streams_that_differ_stand_apart_and_are_never_tested_against_each_other(tmp_path):
    for seed in range(3):
        fake_run(tmp_path / f"a{seed}", "good", seed, [90 + seed, 80 + seed])
        fake_run(tmp_path / f"b{seed}", "bad", seed, [50 + 2 * seed, 40 + seed])
        fake_run(tmp_path / f"c{seed}", "rich", seed, [70 + seed, 60 - seed], stream={"shots": 50})
        fake_run(tmp_path / f"d{seed}", "good", seed, [99, 99 - seed], evaluation="validation")
    groups, _ = collect(tmp_path)
    assert [(group.protocol, group.label) for group in groups] == [
        ("split-digits", "good"),
        ("split-digits", "bad"),
        ("split-digits evaluation=validation", "good"),
        ("split-digits shots=50", "rich"),
    ]
    made = method_tables.results_table(groups)
    assert [line[3].mark for line in made.body] == [False, True, False, False]
    assert made.note.endswith("Lines of different protocols cannot be compared.")
    with pytest.raises(
        UserError, match="these methods have no seed on the same stream in common: split-digits and split-digits sh"
    ):
        method_tables.differences_table(groups, ["bad", "rich"])


def test_runs_that_met_other_data_are_never_tested_against_each_other(tmp_path):
    """A folder of photos may grow between two commands: neither its name nor a setting tells."""
    for seed in range(3):
        fake_run(tmp_path / f"a{seed}", "good", seed, [90 + seed, 80 + seed])
        fake_run(tmp_path / f"b{seed}", "bad", seed, [50 + 2 * seed, 40 + seed])
        fake_run(tmp_path / f"c{seed}", "fewer", seed, [45 + 2 * seed, 35 + seed], images=50)
        fake_run(tmp_path / f"d{seed}", "more", seed, [30 + seed, 20 + seed], known_classes=[2, 4])
    groups, _ = collect(tmp_path)
    assert [(group.protocol, group.label) for group in groups] == [
        ("split-digits", "good"),
        ("split-digits", "bad"),
        ("split-digits classes=4", "more"),
        ("split-digits images=100", "fewer"),
    ]
    assert [line[3].mark for line in method_tables.results_table(groups).body] == [False, True, False, False]
    with pytest.raises(UserError, match="no seed on the same stream"):
        method_tables.differences_table(groups, ["bad", "fewer"])


def test_marks_are_against_the_best_or_the_chosen(runs):
    groups, _ = collect(runs)
    best = method_tables.results_table(groups)
    assert [[cell.mark for cell in line[2:4]] for line in best.body] == [[False, False], [True, True]]
    assert "differs from good, the best avg," in best.note
    assert best.records[1]["avg_p"] < 0.05
    assert (best.records[0]["avg_p"], best.records[0]["p_against"]) == (None, "good")
    chosen = method_tables.results_table(groups, against="bad")
    assert [[cell.mark for cell in line[2:4]] for line in chosen.body] == [[True, True], [False, False]]
    with pytest.raises(UserError, match="unknown method 'god' in this folder \\(did you mean good\\?\\)"):
        method_tables.results_table(groups, against="god")


def test_more_methods_make_it_harder_to_be_marked(tmp_path):
    many_runs(tmp_path, 2)
    few = method_tables.results_table(collect(tmp_path)[0]).records[1]["avg_p"]
    many_runs(tmp_path / "more", 9)
    many = {record["method"]: record for record in method_tables.results_table(collect(tmp_path / "more")[0]).records}
    assert many["method-1"]["avg_p"] > few


def test_columns_and_spread_are_chosen(runs):
    groups, _ = collect(runs)
    chosen = method_tables.results_table(groups, ["final", "backward_transfer"], "ci")
    assert chosen.header == ["method", "seeds", "final %", "backward transfer"]
    assert [cell.text for cell in chosen.body[0]] == ["good", "3", "80.0 [55.2, 104.8]", "-10.0 [-10.0, -10.0]"]
    assert [key for key in chosen.records[0] if key in METRICS] == ["final", "backward_transfer"]
    assert method_tables.results_table(groups, ["avg"], "sem").body[0][2].text == "85.0 ± 5.8"
    for mistake in (["fnal"], ["avg", ""]):
        with pytest.raises(UserError, match="unknown column"):
            method_tables.results_table(groups, mistake)
    with pytest.raises(UserError, match="unknown spread 'range'"):
        method_tables.results_table(groups, spread="range")


def test_several_protocols_get_a_column(runs):
    fake_run(runs / "other", "good", 0, [90, 80], protocol="permuted-digits")
    made = method_tables.results_table(collect(runs)[0])
    assert formats.table_as_text(made).startswith("protocol ")
    assert "the best avg of its protocol" in made.note


def test_paired_differences_by_hand(runs):
    made = method_tables.differences_table(collect(runs)[0], ["good", "bad"], ["avg"])
    (record,) = made.records
    # Averages 75, 85, 95 against 30, 41, 52: differences 45, 44, 43.
    assert (record["seeds"], record["difference"]) == (3, 44)
    assert record["low"] == pytest.approx(44 - 4.302653 / 3**0.5, abs=1e-3)
    assert record["p"] == record["p_holm"] < 0.001
    assert made.body[0][-1].mark


def test_all_pairs_are_one_family(tmp_path):
    many_runs(tmp_path, 3)
    records = method_tables.differences_table(
        collect(tmp_path)[0], ["method-0", "method-1", "method-2"], ["avg", "final"]
    ).records
    pairs = [(r["first"][-1], r["second"][-1], r["metric"]) for r in records]
    assert pairs == [(a, b, m) for a, b in ("01", "02", "12") for m in ("avg", "final")]
    smallest = min(records, key=lambda record: record["p"])
    assert smallest["p_holm"] == pytest.approx(min(1, 6 * smallest["p"]), rel=1e-4)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["good"], "--compare good: give at least two methods"),
        (["good", "good"], "give at least two methods"),
        (["good", "ugly"], "unknown method 'ugly' in this folder"),
        (["good", "lonely"], "these methods have no seed"),
    ],
)
def test_mistakes_in_a_comparison(runs, labels, message):
    fake_run(runs / "lonely", "lonely", 9, [60, 50])
    with pytest.raises(UserError, match=message):
        method_tables.differences_table(collect(runs)[0], labels)


def test_only_accuracies_are_compared(runs):
    with pytest.raises(UserError, match="unknown column 'seconds'"):
        method_tables.differences_table(collect(runs)[0], ["good", "bad"], ["seconds"])


def test_formats_agree(runs):
    made = method_tables.results_table(collect(runs)[0])
    parsed = json.loads(formats.table_as_json(made))
    lines = list(csv.DictReader(io.StringIO(formats.table_as_csv(made))))
    assert [line["avg"] for line in lines] == [str(record["avg"]) for record in parsed]
    assert all(line.keys() == record.keys() for line, record in zip(lines, parsed))
    text, markdown = formats.table_as_text(made).splitlines(), formats.table_as_markdown(made).splitlines()
    assert text[:1] + text[2:4] == [line.rstrip() for line in text[:1] + text[2:4]]
    assert [line.split()[0] for line in text[2:4]] == ["good", "bad"]
    assert markdown[2].startswith("| good | 3 | **85.0 ± 10.0** |")
    assert markdown[3].startswith(r"| bad | 3 | 41.0 ± 11.0 \* |")
    assert len({line.count("|") for line in markdown[:4]}) == 1


def test_long_names_wrap_and_leave_the_columns_aligned():
    name = "vpr-paper replay_order=latest-only recall=variance samples=100 weighted=False"
    body = [[Cell(name), Cell("1.0", mark=True)], [Cell("sgd"), Cell("22.0")]]
    lines = formats.table_as_text(Table(["method", "avg %"], body, 1)).splitlines()
    assert max(map(len, lines)) <= formats.WIDEST + 10
    assert lines[2].endswith("   1.0 *")
    assert lines[3].strip() in name
    assert lines[-1].index("22.0") == lines[2].index(" 1.0")


def test_latex_has_nothing_that_latex_would_take_amiss():
    body = [[Cell(r"a_b & 50% {x} #1 $ ~ ^ \\", strong=True), Cell("-1.0 ± 2.0", mark=True)], [Cell("c"), Cell("3")]]
    lines = formats.table_as_latex(
        Table(["method", "avg %"], body, 1, note="p < 0.05, see `bench --redo`")
    ).splitlines()
    assert lines[1:4] == [r"\begin{tabular}{@{}lr@{}}", r"\toprule", r"method & avg \% \\"]
    escaped = r"a\_b \& 50\% \{x\} \#1 \$ \textasciitilde{} \textasciicircum{} \textbackslash{}\textbackslash{}"
    assert lines[5] == rf"\textbf{{{escaped}}} & $-$1.0 $\pm$ 2.0$^{{*}}$ \\"
    assert lines[6] == r"c & 3\phantom{$^{*}$} \\"
    assert lines[-1] == r"\footnotesize p $<$ 0.05, see \texttt{bench --redo}"


def test_metrics_of_few_shot_papers_and_by_class_and_the_second_underlined(tmp_path):
    for number, label in enumerate(("a", "b", "c")):
        fake_run(tmp_path / label, label, 0, [90, 80 - 10 * number])
    groups, _ = collect(tmp_path)
    table = method_tables.results_table(
        groups, ["base", "novel", "harmonic", "average_incremental_accuracy", "bwt", "top5"]
    )
    assert [cell.text for cell in table.body[0]] == ["a", "1", "80.0", "80.0", "80.0", "85.0", "-10.0", formats.ABSENT]
    latex = formats.table_as_latex(table)
    assert r"\textbf{80.0}" in latex
    assert r"\underline{70.0}" in latex
    assert "Bold: the best of each column. Underlined: the second." in latex
    assert table.records[0]["top5"] is None
    with pytest.raises(UserError, match="no run here has confusion"):
        method_tables.classes_table(groups)
    folder = RunFolder(tmp_path / "a")
    folder.write_answers({"confusion": [(1, 0, 0, 5), (2, 0, 0, 3), (2, 0, 1, 1), (2, 1, 1, 2)]})
    assert [cell.text for cell in method_tables.classes_table(collect(tmp_path)[0]).body[0]] == [
        "split-digits",
        "a",
        "75.0",
        "100.0",
    ]

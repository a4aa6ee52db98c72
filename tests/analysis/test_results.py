import pytest

from protoreplay.analysis.results import collect
from protoreplay.core.errors import UserError
from protoreplay.metrics.accuracy import Count
from tests.report.fakes import fake_run


def test_what_is_measured_of_a_run(runs):
    groups, unfinished = collect(runs)
    good, bad = groups
    assert unfinished == 0
    assert (good.label, bad.label) == ("good", "bad")
    assert good.values["avg"] == pytest.approx({0: 75, 1: 85, 2: 95})
    assert good.summaries["forgetting"].mean == pytest.approx(10)
    assert good.summaries["first_task_retention"].mean == pytest.approx(100 * (70 / 80 + 80 / 90 + 90 / 100) / 3)
    assert (good.summaries["seconds"].mean, good.values["kept_numbers"][0], good.values["kept_bytes"][0]) == (
        1.5,
        15,
        45,
    )
    assert good.chance() == [100, 50]


def test_bands_of_figures_are_the_intervals_of_tables(runs):
    good = collect(runs)[0][0]
    last = good.summaries["final"]
    assert (good.accuracy.low[-1], good.accuracy.high[-1]) == pytest.approx((last.low, last.high))
    # 80, 90 and 100 after the first task: Student's quantile with two degrees of freedom is 4.302653.
    assert good.first_task.low[0] == pytest.approx(90 - 4.302653 * 10 / 3**0.5, abs=1e-4)


def test_rows_of_tasks_not_yet_trained_do_not_make_a_run_unfinished(tmp_path):
    fake_run(tmp_path / "a", "only", 0, [70, 60])
    rows = (tmp_path / "a/counts.csv").read_text()
    (tmp_path / "a/counts.csv").write_text(f"{rows}0,1,100,50\n0,2,100,50\n1,2,100,55\n")
    (group,), unfinished = collect(tmp_path)
    assert unfinished == 0
    assert Count(0, 1, 100, 50) in group.results[0].counts


def test_unfinished_runs_are_counted_not_shown(runs):
    fake_run(runs / "half", "half", 0, [90, 80], finished=False)
    fake_run(runs / "none", "none", 0, [90, 80])
    (runs / "none/counts.csv").unlink()
    groups, unfinished = collect(runs)
    assert [group.label for group in groups] == ["good", "bad"]
    assert unfinished == 2


def test_settings_that_differ_are_in_the_label(tmp_path):
    for tau in (1, 2):
        fake_run(tmp_path / str(tau), "vpr", 0, [50 + tau], {"tau": tau, "dim": 5})
    assert [group.label for group in collect(tmp_path)[0]] == ["vpr tau=2", "vpr tau=1"]


def test_of_many_variants_the_usual_settings_go_without_saying(tmp_path):
    usual = {"tau": 1, "dim": 5, "order": "forward"}
    for number, change in enumerate(({}, {"tau": 2}, {"order": "backward"}, {"order": "latest"})):
        fake_run(tmp_path / str(number), "vpr", 0, [90 - number], {**usual, **change})
    labels = [group.label for group in collect(tmp_path)[0]]
    assert labels == ["vpr", "vpr tau=2", "vpr order=backward", "vpr order=latest"]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", "{", "config.json is not the configuration of a run"),
        ("config.json", "[]", "config.json is not the configuration of a run"),
        ("counts.csv", "a,b\n", "counts.csv is not a table of trained,tested,n,correct"),
        ("counts.csv", "trained,tested,n,correct\n1,1,x,2\n", "counts.csv is not a table of trained,tested,n,correct"),
        ("counts.csv", "trained,tested,n,correct\n1,1,2\n", "counts.csv is not a table of trained,tested,n,correct"),
        ("events.jsonl", "", "events.jsonl is not the event log of a finished run"),
        ("events.jsonl", "{}\n", "events.jsonl is not the events of a run"),
    ],
)
def test_a_damaged_file_is_named(runs, file, content, message):
    (runs / "good/1" / file).write_text(content)
    with pytest.raises(UserError, match=message):
        collect(runs)


def test_a_last_event_cut_off_by_a_kill_is_left_out(runs):
    with (runs / "good/1/events.jsonl").open("a") as file:
        file.write('{"task": 2, "lea')
    assert collect(runs)[0][0].results[1].seconds == 1.5


def test_a_finished_run_without_events_is_an_error_not_a_zero(runs):
    (runs / "good/1/events.jsonl").unlink()
    with pytest.raises(UserError, match=r"good/1 has a finished run without events\.jsonl"):
        collect(runs)

import io

from rich.console import Console

from protoreplay.experiments import run_progress as progress
from protoreplay.experiments.run_progress import GridProgressBars, GridProgressLines


def show(board):
    """A grid of four runs, two of them at a time; one is finished, one fails."""
    with board:
        board.grid(4, 1)
        first, second = board.run(), board.run()
        first.begin("vpr seed 0", 9, 0)
        second.begin("sgd seed 0", 9, 3)
        first.step(1, 5, 20, 0.25)
        first.task(1, 0.5, 1.0)
        yield
        second.end()
        board.tally("sgd seed 0 is finished", 2, 0, 200.0)
        first.end()
        board.tally("vpr seed 0 failed", 2, 1, float("nan"))


def test_a_log_says_what_is_done_and_what_is_left(capsys, monkeypatch):
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    list(show(GridProgressLines()))
    assert capsys.readouterr().err.splitlines() == [
        "4 runs, 1 of them finished before",
        "sgd seed 0: continues after task 3",
        "vpr seed 0: task 1/9  loss 0.250  accuracy 50.0%  1.0 s",
        "sgd seed 0 is finished; 2 of 4 runs, about 3 min left",
        "vpr seed 0 failed; 2 of 4 runs, 1 failed",
    ]


def test_in_a_log_one_of_many_runs_does_not_speak_at_every_task(capsys):
    list(show(GridProgressLines()))
    assert "task 1/9" not in capsys.readouterr().err


def test_on_a_terminal_there_is_a_bar_for_all_and_one_for_each_that_is_under_way():
    console = Console(file=io.StringIO(), force_terminal=True, width=110)
    board = GridProgressBars(console)
    rows = [[(task.description, task.completed, task.fields["note"]) for task in board.bars.tasks] for _ in show(board)]
    assert rows == [
        [("runs", 1, ""), ("  vpr seed 0", 1, "accuracy 50.0%"), ("  sgd seed 0", 3, "continues after task 3")]
    ]
    assert [(task.description, task.completed, task.fields["note"]) for task in board.bars.tasks] == [
        ("runs", 2, "1 failed")
    ]


def test_a_run_by_itself_speaks_at_every_task(capsys):
    with GridProgressLines() as board:
        run = board.run()
        run.begin("vpr seed 0", 2, 0)
        run.task(1, 0.5, 1.0)
        run.task(2, 0.5, 1.0)
        run.end()
    assert [line.split("  ")[0] for line in capsys.readouterr().err.splitlines()] == [
        "vpr seed 0: task 1/2",
        "vpr seed 0: task 2/2",
    ]

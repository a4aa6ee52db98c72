import io

from rich.console import Console

from protoreplay.core.terminal import ItemProgress, ItemProgressBar, ItemProgressLines, item_progress


def test_lines_in_a_log(capsys):
    lines = ItemProgressLines()
    lines.begin("file", 1000)
    for _ in range(1000):
        lines.advance(1)
    lines.begin("unknown size")
    lines.advance(5)
    assert capsys.readouterr().err.splitlines() == [
        "file",
        "file: 25 %",
        "file: 50 %",
        "file: 75 %",
        "file: 100 %",
        "unknown size",
    ]


def test_nothing_is_shown_where_nobody_looks(capsys):
    with ItemProgress() as progress:
        progress.begin("file", 10)
        progress.advance(10)
        progress.say("done")
    assert capsys.readouterr() == ("", "")


def test_a_bar_on_a_terminal_is_gone_at_the_end_and_what_was_said_stays():
    screen = io.StringIO()
    with ItemProgressBar(Console(file=screen, force_terminal=True, width=60)) as progress:
        progress.begin("file", 10)
        progress.advance(5)
        progress.say("one [red] line")
    assert "file" in screen.getvalue()
    assert "50%" in screen.getvalue()
    assert "one [red] line\n" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")  # the line of the bar is cleared


def test_lines_where_stderr_is_no_terminal(capsys):
    with item_progress() as progress:
        progress.begin("file", 2)
    assert capsys.readouterr().err == "file\n"

"""The help of every command: words for values, no types of Python, and a sentence for every option."""

import re

import pytest
from typer.main import get_command

from protoreplay.cli import app


def every_command(command, names=()):
    yield " ".join(names), command
    for name, one in getattr(command, "commands", {}).items():
        yield from every_command(one, (*names, name))


COMMANDS = dict(every_command(get_command(app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_no_types_and_says_what_each_option_is(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stop:
        get_command(app).main([*name.split(), "--help"], prog_name="protoreplay")
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert not re.findall(r"<[a-z]|[{}]|\[\[|\]\]|\.{4}", shown)
    for one in COMMANDS[name].params:
        assert one.help, f"{name} {one.opts}"


def test_usage_names_what_is_required_and_what_repeats(monkeypatch, capsys):
    for words in ("table DIR...", "run PROTOCOL", "learn MODEL [FOLDER]", "predict MODEL [PATH...]"):
        with pytest.raises(SystemExit):
            get_command(app).main([words.split()[0], "--help"], prog_name="protoreplay")
        name, _, arguments = words.partition(" ")
        assert f"Usage: protoreplay {name} [OPTIONS] {arguments} " in capsys.readouterr().out

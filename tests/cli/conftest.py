"""A command called as a shell would, and fixtures of the rooms whose commands are tested here."""

import sys

import pytest

from protoreplay import cli
from tests.data.conftest import web  # noqa: F401
from tests.photos.conftest import taught, tiny  # noqa: F401


@pytest.fixture
def protoreplay(capsys, monkeypatch, tmp_path):
    """Exit code, stdout and stderr of a command, in this process and in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["protoreplay", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        output = capsys.readouterr()
        return stop.value.code or 0, output.out, output.err

    return call

import socket
import sys

import pytest
import requests

from protoreplay import cli
from tests.photos.serve.served import running


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--token", "short"], "a token has 8 or more characters"),
        (["--port", "TAKEN"], "choose another --port"),
        (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
        (["--encoder", "nonsense"], "nonsense"),
    ],
)
def test_a_wrong_call_is_one_line(options, words, tiny, tmp_path, monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = [str(taken.getsockname()[1]) if word == "TAKEN" else word for word in options]
        encoder = [] if "--encoder" in options else ["--encoder", tiny]
        monkeypatch.setattr(sys, "argv", ["protoreplay", "serve", str(tmp_path / "m"), *encoder, *options])
        with pytest.raises(SystemExit) as stop:
            cli.main()
    said = capsys.readouterr().err.splitlines()
    assert stop.value.code == 2
    assert len(said) == 1
    assert words in said[0]


def test_a_folder_that_is_not_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["protoreplay", "serve", str(tmp_path / "none" / "m")])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    assert "is not a folder: make it first" in capsys.readouterr().err


def test_another_host_prints_an_address_with_a_token(tiny, tmp_path):
    with running(tmp_path / "m", "--encoder", tiny, "--host", "0.0.0.0") as (_, address):
        assert "/?token=" in address
        opened = requests.get(address.replace("0.0.0.0", "127.0.0.1"), timeout=20)
        refused = requests.get(address.replace("0.0.0.0", "127.0.0.1").partition("?")[0], timeout=20)
    assert (opened.status_code, refused.status_code) == (200, 401)
    assert "<title>protoreplay</title>" in opened.text

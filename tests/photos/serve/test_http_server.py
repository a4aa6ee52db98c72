"""A server as a person starts it, and others who mean it harm."""

import contextlib
import re
import socket
import threading
import time
from urllib.parse import urlsplit

import requests

from protoreplay.core.locks import held_lock
from tests.photos.serve.served import running

FEW_FILES = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))"
IMPATIENT = "from protoreplay.photos.serve import served_model; served_model.WAIT_SECONDS = 1.0"
SHORT = "from protoreplay.photos.serve import http_server; http_server.HEAD_SECONDS = 1.0"


def patiently_get(address, seconds=60, **options):
    """The first answer there is: the server may be busy with others for a while, but not for ever."""
    until = time.monotonic() + seconds
    while True:
        try:
            return requests.get(address, timeout=10, **options)
        except requests.RequestException:
            assert time.monotonic() < until


def closed_by_server(connection):
    connection.settimeout(60)
    with contextlib.suppress(ConnectionError):
        return connection.recv(1) == b""
    return True


def test_half_sent_heads_are_waited_for_a_while_only(tiny, tmp_path):
    with (tmp_path / "errors").open("w") as errors, contextlib.ExitStack() as stack:
        given = running(tmp_path / "m", "--encoder", tiny, setup=f"{FEW_FILES}\n{SHORT}", stderr=errors)
        _, address = stack.enter_context(given)
        place = urlsplit(address)
        silent = []
        for start in (b"", b"GET / HTTP/1.1\r\nHost: 127") * 150:
            with contextlib.suppress(ConnectionError):
                silent.append(stack.enter_context(socket.create_connection((place.hostname, place.port), 60)))
                silent[-1].sendall(start)
        assert patiently_get(address).status_code == 200
        assert all(closed_by_server(one) for one in silent)
    assert (tmp_path / "errors").read_text() == ""


def test_an_idle_connection_is_closed_with_half_a_second_request_too(tiny, tmp_path):
    with running(tmp_path / "m", "--encoder", tiny, setup=SHORT) as (_, address):
        place = urlsplit(address)
        with socket.create_connection((place.hostname, place.port), 60) as connection:
            connection.sendall(f"GET /docs HTTP/1.1\r\nHost: {place.netloc}\r\n\r\nGET /".encode())
            answer = b""
            while piece := connection.recv(4096):
                answer += piece
    assert answer.startswith(b"HTTP/1.1 401")


def test_wrong_requests_write_no_log(tiny, tmp_path):
    with (
        (tmp_path / "errors").open("w") as errors,
        running(tmp_path / "m", "--encoder", tiny, stderr=errors) as (_, address),
    ):
        place = urlsplit(address)
        for nonsense in (b"\0" * 100, b"GET / HTTP/1.1\r\nx: " + b"y" * 100_000, b"GET / HTTP/9\r\n\r\n"):
            for _ in range(20):
                one = socket.create_connection((place.hostname, place.port), 60)
                with one as connection, contextlib.suppress(ConnectionError):
                    connection.sendall(nonsense)
                    connection.recv(4096)
        assert requests.get(address, timeout=60).status_code == 200
    assert (tmp_path / "errors").read_text() == ""


def test_it_ends_when_told_while_changes_wait_for_the_lock(tiny, tmp_path):
    model = tmp_path / "m"
    with running(model, "--encoder", tiny, "--no-token", setup=IMPATIENT) as (process, address):
        with held_lock(model.with_name(".m.lock"), print, "busy"):

            def change():
                with contextlib.suppress(requests.RequestException):
                    requests.post(f"{address}api/undo", timeout=120)

            changes = [threading.Thread(target=change) for _ in range(41)]
            for one in changes:
                one.start()
            assert requests.get(f"{address}api/classes", timeout=60).status_code == 200
            process.terminate()
            assert process.wait(60) is not None
        for one in changes:
            one.join(60)


def test_it_ends_when_told_while_clients_send_and_read_nothing(tiny, tmp_path):
    with running(tmp_path / "m", "--encoder", tiny) as (process, address), contextlib.ExitStack() as stack:
        place = urlsplit(address)
        for start in (b"", b"GET / HT", b"POST /api/undo HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"):
            stack.enter_context(socket.create_connection((place.hostname, place.port), 60)).sendall(start)
        assert requests.get(address, timeout=60).status_code == 200
        process.terminate()
        assert process.wait(60) is not None


def test_every_address_has_a_token_of_its_own(tiny, tmp_path):
    with running(tmp_path / "m", "--encoder", tiny) as (_, address):
        assert re.search(r"\?token=[\w-]{20,}$", address)
        bare = address.partition("?")[0]
        for path in ("", "api/classes", "docs", "openapi.json"):
            assert requests.get(f"{bare}{path}", timeout=60).status_code == 401
        with requests.Session() as session:
            assert "<title>protoreplay</title>" in session.get(address, timeout=60).text
            assert session.get(f"{bare}api/classes", timeout=60).status_code == 200


def test_no_token_says_what_it_means(tiny, tmp_path):
    with running(tmp_path / "m", "--encoder", tiny, "--no-token") as (process, address):
        assert "token" not in address
        assert "every user and every program of this machine can read and change" in process.stdout.readline()
        assert requests.get(f"{address}api/classes", timeout=60).status_code == 200


def test_the_browser_is_given_a_file_that_only_the_user_can_read(tiny, tmp_path):
    seen = tmp_path / "seen"
    script = tmp_path / "browser"
    script.write_text(
        f"#!/bin/sh\nf=${{1#file://}}; (echo $1; stat -c %a $(dirname $f); cat $f) > {seen}.part; mv {seen}.part {seen}"
    )
    script.chmod(0o755)
    with running(
        tmp_path / "m", "--encoder", tiny, "--open", setup=f"import os; os.environ['BROWSER'] = '{script}'"
    ) as (_, address):
        assert patiently_get(address).status_code == 200
        until = time.monotonic() + 60
        while not seen.exists():
            assert time.monotonic() < until
            time.sleep(0.01)
    opened, mode, page = seen.read_text().splitlines()
    token = address.partition("token=")[2]
    assert (token in opened, mode, token in page) == (False, "700", True)

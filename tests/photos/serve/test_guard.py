import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient

from protoreplay.core.errors import UserError
from protoreplay.photos.serve import app, guard, listening
from tests.photos.serve.fakes import files


def status(client, **headers):
    return client.get(
        "/api/classes", headers={key.replace("_", "-"): value for key, value in headers.items()}
    ).status_code


def test_other_pages_are_refused(client):
    assert status(client) == 200
    assert status(client, Origin="http://127.0.0.1:8000") == 200
    assert status(client, Host="localhost:8000") == 200
    assert status(client, Host="[::1]:8000", Origin="http://[::1]:8000") == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9000", "http://127.0.0.1:8000.evil.example"):
        assert status(client, Origin=origin) == 403
    for host in ("evil.example", "evil.example:8000", "192.168.0.7:8000", "127.0.0.1.evil.example", ""):
        assert status(client, Host=host) == 421
    assert status(client, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors") == 403
    assert status(client, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate") == 200
    refused = client.post("/api/undo", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
    assert refused.status_code == 403


def test_another_host_needs_the_token(served):
    with TestClient(app.create_app(served, "0.0.0.0", "a-secret/+ word"), base_url="http://192.168.0.7:8000") as client:
        assert status(client) == 401
        assert client.get("/").status_code == 401
        assert client.get("/docs").status_code == 401
        assert client.get("/?token=wrong").status_code == 401
        assert status(client, Authorization="Bearer a-secret/+ word") == 200
        assert status(client, Authorization="Bearer a-secret/+ wor") == 401
        assert status(client, Host="evil.example", Authorization="Bearer a-secret/+ word") == 421
        opened = client.get("/?token=a-secret%2F%2B%20word", follow_redirects=False)
        assert (opened.status_code, opened.headers["location"]) == (303, "/")
        assert "HttpOnly; SameSite=Lax" in opened.headers["set-cookie"]
        assert status(client) == 200


def test_tokens():
    made = {listening.checked_token(host, None) for host in ("127.0.0.1", "localhost", "0.0.0.0", "my-host")}
    assert len(made) == 4
    assert all(len(token) >= 20 for token in made)
    assert listening.checked_token("127.0.0.1", None, none=True) is None
    for host, token, none, why in (
        ("0.0.0.0", "short", False, "8 or more"),
        ("0.0.0.0", None, True, "alone: leave out --host"),
        ("127.0.0.1", "a long token", True, "give one of the two"),
    ):
        with pytest.raises(UserError, match=why):
            listening.checked_token(host, token, none)


def test_a_cookie_is_for_one_port(served):
    with TestClient(app.create_app(served, token="a secret word"), base_url="http://127.0.0.1:8000") as client:
        cookie = client.get("/?token=a%20secret%20word", follow_redirects=False).headers["set-cookie"]
        assert cookie.startswith("protoreplay-8000=")
        client.cookies.clear()
        for port, expected in ((8000, 200), (8001, 401)):
            client.cookies.set(f"protoreplay-{port}", "a%20secret%20word")
            assert status(client) == expected
            client.cookies.clear()


def test_a_taken_port_is_one_line():
    with listening.listening_socket("127.0.0.1", 0) as taken, pytest.raises(UserError, match="choose another --port"):
        listening.listening_socket("127.0.0.1", taken.getsockname()[1])


def test_large_bodies_are_refused_with_and_without_announcement(monkeypatch, served):
    monkeypatch.setattr(app.uploads, "MOST_REQUEST", 5000)
    with TestClient(app.create_app(served), base_url="http://127.0.0.1:8000") as small:
        assert small.post("/api/predict", files=files("red", 6)).status_code == 413

        def endless():
            for i in range(100):
                yield b"--b\r\n" if not i else b"x" * 1000

        for path, kind in (("forget", "application/json"), ("predict", "multipart/form-data; boundary=b")):
            answer = small.post(f"/api/{path}", content=endless(), headers={"Content-Type": kind})
            assert answer.status_code == 413, answer.text
        assert small.post("/api/forget", json={"label": "x" * 5000}).status_code == 413
        headers = {"Content-Length": "-1"}
        assert small.post("/api/undo", headers=headers).status_code == 400


def test_headers_keep_the_page_to_itself(client):
    policy = client.get("/docs").headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert guard.is_loopback("::1")
    assert not guard.is_loopback("0.0.0.0")


def test_only_a_form_with_photos_may_be_large(taught):
    answer = taught.post("/api/forget", json={"label": "x" * 100_000})
    assert (answer.status_code, "without photos may have 64 KB" in answer.json()["detail"]) == (413, True)
    for path, body in (("forget", {"label": "x" * 1001}), ("rename", {"label": "red", "new": "x" * 1001})):
        answer = taught.post(f"/api/{path}", json=body)
        assert (answer.status_code, "at most 1000 characters" in answer.json()["detail"]) == (422, True)
    answer = taught.post("/api/learn", data={"label": "x" * 1001}, files=files("red", 1))
    assert (answer.status_code, "at most 1000 characters" in answer.json()["detail"]) == (422, True)


def test_a_body_that_does_not_come_is_waited_for_a_while(served, monkeypatch):
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.0)
    sent = []

    async def silent():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"127.0.0.1:8000"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/api/forget", "query_string": b"", "headers": headers}
    called = app.create_app(served)({**scope, "raw_path": b"/api/forget", "root_path": ""}, silent, send)
    with ThreadPoolExecutor() as elsewhere:  # a browser's event loop may be running in this thread
        elsewhere.submit(asyncio.run, called).result(60)
    assert sent[0]["status"] == 408

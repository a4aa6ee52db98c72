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
        assert "HttpOnly; SameSite=Strict" in opened.headers["set-cookie"]
        assert status(client) == 200


def test_tokens():
    assert listening.checked_token("127.0.0.1", None) is None
    assert listening.checked_token("localhost", None) is None
    assert len(listening.checked_token("0.0.0.0", None)) >= 20
    assert len(listening.checked_token("my-host", None)) >= 20
    with pytest.raises(UserError, match="8 or more"):
        listening.checked_token("0.0.0.0", "short")


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
        headers = {"Content-Length": "-1"}
        assert small.post("/api/undo", headers=headers).status_code == 400


def test_headers_keep_the_page_to_itself(client):
    policy = client.get("/docs").headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert guard.is_loopback("::1")
    assert not guard.is_loopback("0.0.0.0")

import socket

import pytest

from protoreplay.photos.serve import addresses


def test_others_are_given_addresses_that_they_can_reach():
    assert addresses.reachable_hosts("192.168.0.7") == ["192.168.0.7"]
    for wildcard in ("0.0.0.0", "::"):
        found = addresses.reachable_hosts(wildcard)
        assert found
        assert not {"0.0.0.0", "::", "127.0.0.1", "::1"} & set(found)


def test_an_address_is_told_in_words_and_as_a_picture():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        lines = addresses.for_others("192.168.0.7", listening, "a secret")
    assert f"  http://192.168.0.7:{port}/?token=a%20secret" in lines
    assert "█" in lines[-1] or "▀" in lines[-1]


def test_without_the_library_there_is_no_picture(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "segno", None)
    assert addresses.qr_code("http://192.168.0.7/") == ""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert len(addresses.for_others("192.168.0.7", listening, None)) == 2


@pytest.mark.parametrize("address", ["http://192.168.0.7:8000/?token=" + "x" * 400])
def test_a_long_address_still_fits(address):
    assert addresses.qr_code(address)

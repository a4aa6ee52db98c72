"""What others type or scan to open the page: the addresses of this machine, and a QR code of the first."""

import contextlib
import io
import ipaddress
import socket

from protoreplay.photos.serve.listening import page_address

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def own_host(host: str) -> str:
    """What a browser on this machine opens."""
    return _WILDCARDS.get(host, host)


def for_others(host: str, listening: socket.socket, token: str | None) -> list[str]:
    """Lines for whoever wants to open the page from another device, a phone for one."""
    found = [page_address(one, listening, token) for one in reachable_hosts(host)]
    lines = ["from another device in this network:", *(f"  {address}" for address in found)]
    picture = qr_code(found[0])
    return [*lines, "or scan this with a phone:", picture] if picture else lines


def reachable_hosts(host: str) -> list[str]:
    """The addresses at which other machines reach a server on `host`, the likeliest first."""
    if host not in _WILDCARDS:
        return [host]
    found = [_outgoing(socket.AF_INET, "192.0.2.1")]
    with contextlib.suppress(OSError):
        own = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET, socket.SOCK_STREAM)
        found += [str(where[4][0]) for where in own]
    if host == "::":
        found.append(_outgoing(socket.AF_INET6, "2001:db8::1"))
    usable = [one for one in dict.fromkeys(found) if one and not ipaddress.ip_address(one).is_loopback]
    return usable or [socket.gethostname()]


def qr_code(address: str) -> str:
    """The address as blocks of text that a phone can read from a terminal; empty without the library for it."""
    try:
        import segno
    except ModuleNotFoundError:
        return ""
    text = io.StringIO()
    segno.make(address, error="l", micro=False).terminal(text, compact=True)
    return text.getvalue()


def _outgoing(family: socket.AddressFamily, towards: str) -> str:
    """The address from which packets would leave; none is sent."""
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sending:
        sending.connect((towards, 9))
        return str(sending.getsockname()[0])
    return ""

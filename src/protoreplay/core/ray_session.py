"""The one place that imports and starts Ray.

A temporary cluster listens to this machine alone, asks for a token, and keeps its files in a
folder that only this user may open and that is gone with it.
"""

import contextlib
import importlib
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from protoreplay.core.errors import UserError

_LONGEST_FOLDER = 40
"""Characters: Ray makes sockets below its folder, whose paths may have 107."""


def import_ray() -> Any:
    """The package, which is an extra and takes seconds to import."""
    try:
        import ray
    except ImportError:
        raise UserError("--engine ray needs the package ray: pip install 'protoreplay[ray]'") from None
    return ray


@contextlib.contextmanager
def ray_session(address: str | None, cpus: int | None = None) -> Iterator[Any]:
    """Ray, connected to the cluster at `address`, or to one of `cpus` cores that is started here and ends with this.

    A `UserError` where there is no cluster.
    """
    ray = import_ray()
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    with contextlib.ExitStack() as stack:
        try:
            if address is None:
                private = stack.enter_context(_private_settings())
                # "local" never joins a cluster that happens to run on this machine.
                ray.init("local", include_dashboard=False, num_cpus=cpus, **private, **quiet)
            else:
                _look_for(address)
                ray.init(address, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(f"no Ray cluster at {address or 'this machine'}: {error}") from None
        try:
            yield ray
        finally:
            ray.shutdown()


@contextlib.contextmanager
def _private_settings() -> Iterator[dict[str, Any]]:
    """What `ray.init` needs for a cluster that is closed to others, with the environment its processes start in."""
    from ray._private import ray_constants

    temporary = tempfile.gettempdir()
    parent = temporary if len(temporary) <= _LONGEST_FOLDER else "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="pr-ray-", dir=parent))  # mode 0700; Ray opens its own to all
    token = folder / "token"
    token.touch(0o600, exist_ok=False)
    token.write_text(secrets.token_hex(32))
    # Ray replaces 127.0.0.1 by the outside address unless clusters are off, and reads that when it is imported.
    closed = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    # With its statistics off, Ray 2.60 still asks the metadata servers of three clouds where it runs, over plain HTTP:
    # its processes get a proxy that is not there, and none for this machine.
    closed |= {"http_proxy": "http://127.0.0.1:9", "no_proxy": "127.0.0.1,localhost,::1"}
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        with _environment(closed):
            _forget_token()
            yield {"_node_ip_address": "127.0.0.1", "_temp_dir": str(folder / "r")}
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        _forget_token()
        shutil.rmtree(folder, ignore_errors=True)


def _forget_token() -> None:
    """Ray keeps the token and the settings it read once: have it read them again."""
    raylet: Any = importlib.import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _look_for(address: str) -> None:
    """An `OSError` or a `ValueError` where nobody listens; Ray itself would try for hours."""
    if address != "auto":
        host, separator, port = address.removeprefix("ray://").rpartition(":")
        if not (separator and port.isdecimal()):
            raise ValueError("write auto, HOST:PORT or ray://HOST:PORT")
        socket.create_connection((host, int(port)), timeout=10).close()

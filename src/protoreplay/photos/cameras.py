"""A picture from a camera: the address of its snapshot, or one frame of its stream where ffmpeg is installed."""

import contextlib
import http.client
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from protoreplay.core.errors import UserError

SECONDS = 15
LARGEST_SNAPSHOT = 64 * 2**20
SCHEMES = ("http", "https", "rtsp")


def is_camera(text: str) -> bool:
    """Whether it is an address, and no path."""
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


class SnapshotCamera:
    """A camera.

    Args:
        address: `http://`, `https://` (user and password may stand in it) or `rtsp://`.

    Attributes:
        shown: the address without user and password.
    """

    def __init__(self, address: str) -> None:
        parts = urllib.parse.urlsplit(address)
        if not parts.hostname:
            raise UserError(f"{address}: write http://HOST/PATH or rtsp://HOST/PATH")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        netloc = host + (f":{parts.port}" if parts.port else "")
        self.address, self.shown = address, parts._replace(netloc=netloc).geturl()
        self._user, self._password = (urllib.parse.unquote(text or "") for text in (parts.username, parts.password))
        self._is_stream = parts.scheme.lower() == "rtsp"
        if self._is_stream and shutil.which("ffmpeg") is None:
            raise UserError(
                "rtsp needs the program ffmpeg, which is not installed: install it, "
                "or give the address of the camera's snapshot (http://.../snapshot.jpg)"
            )

    def snapshot(self) -> bytes:
        """The picture of this moment, as a file; a `UserError` where there is none."""
        return self._frame() if self._is_stream else self._fetched()

    def _fetched(self) -> bytes:
        # Cameras are near: not through a proxy.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self._user:
            passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
            passwords.add_password(None, self.shown, self._user, self._password)
            handlers += [
                urllib.request.HTTPBasicAuthHandler(passwords),
                urllib.request.HTTPDigestAuthHandler(passwords),
            ]
        try:
            with contextlib.closing(urllib.request.build_opener(*handlers).open(self.shown, timeout=SECONDS)) as page:
                content: bytes = page.read(LARGEST_SNAPSHOT + 1)
        except urllib.error.HTTPError as error:
            error.close()
            raise UserError(f"{self.shown}: the camera answers {error.code} {error.reason}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = getattr(error, "reason", None) or error
            raise UserError(f"{self.shown}: {getattr(why, 'strerror', None) or why}") from None
        if not content or len(content) > LARGEST_SNAPSHOT:
            raise UserError(f"{self.shown}: {'no picture' if not content else 'refused: too large'}")
        return content

    def _frame(self) -> bytes:
        words = ["ffmpeg", "-nostdin", "-loglevel", "error", "-rtsp_transport", "tcp", "-i", self.address]
        words += ["-frames:v", "1", "-f", "image2pipe", "-c:v", "mjpeg", "-"]
        try:
            found = subprocess.run(words, capture_output=True, timeout=2 * SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise UserError(f"{self.shown}: no picture within {2 * SECONDS} seconds") from None
        if found.returncode or not found.stdout:
            lines = found.stderr.decode(errors="replace").strip().splitlines() or ["no picture"]
            raise UserError(f"{self.shown}: {lines[-1].replace(self.address, self.shown)}")
        return found.stdout

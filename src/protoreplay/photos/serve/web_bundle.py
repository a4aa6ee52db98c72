"""A zip with a page that answers in a browser: the model, and onnxruntime-web to run it; nothing else is needed.

Scripts may be loaded from a page that is opened as a file, but nothing may be fetched: so the model and the runtime's
binary parts are scripts, too.
"""

import base64
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Sequence
from pathlib import Path

from protoreplay.core.errors import UserError
from protoreplay.core.files import write_whole
from protoreplay.core.places import cache_folder

PACKAGE = "onnxruntime-web@1.30.0"
SCRIPT, GLUE, BINARY = "ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"
DIGESTS = {
    SCRIPT: "faece07e84faa9001f5104bbe4e5c70861d06cb2376a0dea1fa0ad33a67adc81",
    GLUE: "e13f7f94fc51b4ca72b12faeb1ee95f4ace6dfbc8939bc718aabdc0a27c4299b",
    BINARY: "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
}
SECONDS = 300
"""To wait for npm."""
_fetching = threading.Lock()


def browser_zip(onnx: bytes, classes: Sequence[str], size: int) -> bytes:
    """The zip's bytes, of a model that `to_onnx` made; a `UserError` if the runtime cannot be had."""
    runtime = browser_runtime()
    ort = f'const ORT_WASM = "{_base64(runtime[BINARY])}", ORT_MJS = "{_base64(runtime[GLUE])}";'
    names = json.dumps(list(classes))
    model = f'const SIZE = {size}, CLASSES = {names}, MODEL = "{_base64(onnx)}";'
    members = {
        "index.html": Path(__file__).with_name("browser_page.html").read_bytes(),
        SCRIPT: runtime[SCRIPT],
        "ort-data.js": ort.encode(),
        "model.js": model.encode(),
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for name, content in members.items():
            packed.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def browser_runtime() -> dict[str, bytes]:
    """The files of onnxruntime-web by name: from the cache, or else from npm."""
    folder = cache_folder() / PACKAGE.replace("@", "-")
    with _fetching:
        kept = {name: path.read_bytes() for name in DIGESTS if (path := folder / name).is_file()}
        if _are_published(kept):
            return kept
        fetched = _fetched_by_npm()
        if not _are_published(fetched):
            raise UserError(f"what npm gave for {PACKAGE} is not the published package: its SHA-256 is another")
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in fetched.items():
            write_whole(folder / name, content)
        return fetched


def _fetched_by_npm() -> dict[str, bytes]:
    npm = shutil.which("npm")
    if npm is None:
        raise UserError("the zip needs onnxruntime-web, which npm fetches: install npm, or download the ONNX file")
    with tempfile.TemporaryDirectory() as work:
        command = [npm, "pack", "--ignore-scripts", "--loglevel=error", "--fetch-retries=1", PACKAGE]
        try:
            done = subprocess.run(command, cwd=work, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise UserError(f"npm did not fetch {PACKAGE} within {SECONDS} s: try again later") from None
        archive = next(Path(work).glob("*.tgz"), None)
        if done.returncode or archive is None:
            raise UserError(f"npm could not fetch {PACKAGE} (exit code {done.returncode}): is there a network?")
        with tarfile.open(archive, "r:gz") as packed:
            members = {name: packed.extractfile(f"package/dist/{name}") for name in DIGESTS}
            return {name: member.read() for name, member in members.items() if member}


def _are_published(content: dict[str, bytes]) -> bool:
    return all(name in content and hashlib.sha256(content[name]).hexdigest() == DIGESTS[name] for name in DIGESTS)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")

"""Writes and verifies constraints-hashes.txt: the SHA-256 of every file that the tests of this project run with.

    python tools/constraint_hashes.py write     # after a change of constraints.txt: asks the package index
    python tools/constraint_hashes.py verify    # downloads every file, and compares it with its SHA-256

The files are those for the Python and the platform on which this was written, so `make test` installs by
constraints.txt, which has none of the hashes. PyTorch is left out: one version of it comes in several builds.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent.parent
CONSTRAINTS, HASHES = HERE / "constraints.txt", HERE / "constraints-hashes.txt"
WITHOUT = {"torch"}


def pinned(text: str) -> dict[str, str]:
    """Name to version, of a file of constraints with hashes or without."""
    found = re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s\\]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def write() -> None:
    """Ask pip which file it would take for each package, and note its SHA-256."""
    wanted = [f"{name}=={version}" for name, version in sorted(pinned(CONSTRAINTS.read_text()).items())]
    wanted = [one for one in wanted if one.partition("==")[0] not in WITHOUT]
    options = ["--quiet", "--dry-run", "--ignore-installed", "--no-deps", "--report", "-"]
    found = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, *wanted], stdout=subprocess.PIPE, check=True
    )
    HASHES.write_text(as_text(json.loads(found.stdout)))


def as_text(report: dict[str, list[dict[str, dict[str, dict[str, dict[str, str]]]]]]) -> str:
    """What pip says it would install, as constraints with hashes."""
    python = f"Python {sys.version_info[0]}.{sys.version_info[1]} on {sys.platform}"
    lines = [f"# SHA-256 of the files for {python}; see tools/constraint_hashes.py."]
    for one in report["install"]:
        about = one["metadata"]
        digest = one["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{about['name']}=={about['version']} --hash=sha256:{digest}")
    return "\n".join([lines[0], *sorted(lines[1:], key=str.lower)]) + "\n"


def verify() -> int:
    """pip's exit code: 0 where every file is the one that was written down."""
    with tempfile.TemporaryDirectory() as place:
        words = ["download", "--quiet", "--no-deps", "--require-hashes", "--dest", place, "--requirement", str(HASHES)]
        code = subprocess.run([sys.executable, "-m", "pip", *words], check=False).returncode
    said = "a file is not the one that was written down, or the package index cannot be reached"
    print(f"constraints-hashes.txt: {said if code else f'all {len(pinned(HASHES.read_text()))} files are the same'}")
    return code


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write"]:
            write()
        case ["verify"]:
            sys.exit(verify())
        case _:
            sys.exit(__doc__)

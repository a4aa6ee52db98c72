"""Asks pip-audit which of the pinned packages have known holes; says so where it, or its database, cannot be reached.

pip-audit lives in an environment of its own, because its many packages would otherwise be pinned and audited here, too.
"""

import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent.parent
PLACE = HERE / "build" / "audit"
UNREACHABLE = (
    "ConnectionError",
    "ConnectionTimeout",
    "Max retries",
    "Connection refused",
    "Name or service",
    "timed out",
)


def main() -> int:
    """0: none is known to have a hole; 1: some have, and are listed; 2: this could not be found out."""
    program = PLACE / "bin" / "pip-audit"
    if not program.exists():
        venv.create(PLACE, with_pip=True, clear=True)
        installed = subprocess.run([PLACE / "bin" / "pip", "install", "--quiet", "pip-audit>=2.9"], check=False)
        if installed.returncode:
            print("audit: pip-audit cannot be installed here, so nothing is known of holes", file=sys.stderr)
            return 2
    return ask([str(program), "--no-deps", "--disable-pip", "--requirement", str(HERE / "constraints.txt")])


def ask(words: list[str]) -> int:
    """Run pip-audit, and tell its answers from its failures, which have the same exit code."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode and (any(sign in done.stderr for sign in UNREACHABLE) or not done.stdout.strip()):
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        print(
            f"audit: the database of holes cannot be reached, so nothing is known ({last[0][-200:]})", file=sys.stderr
        )
        return 2
    print(done.stdout + done.stderr, end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

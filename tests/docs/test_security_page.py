"""Each promise of docs/security.md names the tests that show it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"


def test_every_test_that_the_page_names_exists():
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text("utf-8")))
    existing = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        existing |= set(re.findall(r"^\s*def (test_\w+)\(", path.read_text("utf-8"), re.MULTILINE))
    assert len(named) > 30
    assert named <= existing, sorted(named - existing)


def test_every_promise_names_a_test():
    promises = [part for part in PAGE.read_text("utf-8").split("\n\n") if part.startswith("**")]
    untested = [part.partition("**")[2].partition("**")[0] for part in promises if "`test_" not in part]
    assert untested == []

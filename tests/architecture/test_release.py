"""What a release depends on: one version, files that exist, every module in the wheel."""

import re
import tomllib

import smoke

from protoreplay import __version__
from tests.architecture.source import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_the_same_everywhere():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## {re.escape(__version__)} - ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)


def test_the_package_data_of_the_wheel_are_all_files_that_are_not_python():
    package = ROOT / "src" / "protoreplay"
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["protoreplay"]
    data = {path for pattern in patterns for path in package.glob(pattern)}
    others = {path for path in package.rglob("*.*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert data == others
    assert all((package / name) in data for name in smoke.FILES)


def test_workflows_run_targets_of_the_makefile():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    called = set(re.findall(r"run: make ([\w-]+)", workflow))
    assert {"lint", "suite", "coverage", "docs", "wheel"} <= called <= targets
    for name in re.findall(r"CONSTRAINTS=([\w.-]+)", workflow):
        assert (ROOT / name).exists(), name

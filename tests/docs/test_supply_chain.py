"""Pinned packages have hashes, lowest versions are without known holes, and the audit does not claim too much."""

import re
import sys
import tomllib
from pathlib import Path

import audit
import constraint_hashes

ROOT = Path(__file__).parents[2]


def test_every_pinned_package_but_torch_has_a_hash():
    pinned = constraint_hashes.pinned(constraint_hashes.CONSTRAINTS.read_text())
    hashes = constraint_hashes.HASHES.read_text()
    assert pinned.keys() - constraint_hashes.pinned(hashes).keys() == constraint_hashes.WITHOUT
    assert all(pinned[name] == version for name, version in constraint_hashes.pinned(hashes).items())
    assert all(re.search(r" --hash=sha256:[0-9a-f]{64}$", line) for line in hashes.splitlines()[1:])


def test_what_pip_reports_becomes_a_line():
    info = {"archive_info": {"hashes": {"sha256": "ab" * 32}}, "url": "file:///x.whl"}
    report = {"install": [{"metadata": {"name": "a.b", "version": "1.2"}, "download_info": info}]}
    assert constraint_hashes.as_text(report).splitlines()[1] == f"a.b==1.2 --hash=sha256:{'ab' * 32}"


def test_lowest_versions_are_those_without_known_holes():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    every = [*project["dependencies"], *(one for group in project["optional-dependencies"].values() for one in group)]
    wanted = {"starlette": (1, 3, 1), "filelock": (4, 2, 1), "pillow": (12, 3), "ray[client]": (2, 59)}
    wanted |= {"python-multipart": (0, 0, 30), "h11": (0, 16), "jinja2": (3, 1, 6)}
    for name, least in wanted.items():
        found = [one for one in every if re.match(rf"{re.escape(name)}>=", one)]
        assert found, name
        for one in found:
            assert tuple(map(int, re.search(r">=([\d.]+)", one)[1].split("."))) >= least, one


def test_the_audit_says_when_it_could_not_ask(capsys):
    call = [sys.executable, "-c"]
    assert audit.ask([*call, "import sys; sys.exit('requests.exceptions.ConnectionError: no route')"]) == 2
    assert "cannot be reached, so nothing is known" in capsys.readouterr().err
    assert audit.ask([*call, "import sys; print('pillow 1.0 PYSEC-1'); sys.exit(1)"]) == 1
    assert "pillow 1.0 PYSEC-1" in capsys.readouterr().out
    assert audit.ask([*call, "print('No known vulnerabilities found')"]) == 0

import subprocess
import sys
import tomllib

from tests.architecture.source import PACKAGE, ROOT

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def test_rooms_import_only_what_they_may():
    """The contracts of `[tool.importlinter]` in pyproject.toml: data flows one way."""
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(cache_dir=None))"
    checked = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert checked.returncode == 0, checked.stdout
    assert f"{len(CONTRACTS)} kept, 0 broken" in checked.stdout


def test_no_import_is_excused():
    assert [contract["name"] for contract in CONTRACTS if "ignore_imports" in contract] == []


def test_every_room_has_its_layer():
    (layers,) = (contract for contract in CONTRACTS if contract["type"] == "layers")
    assert layers["exhaustive"]
    assert "exhaustive_ignores" not in layers
    listed = {room.strip() for layer in layers["layers"] for room in layer.split("|")}
    assert listed == {"_version", *(path.parent.name for path in PACKAGE.glob("*/__init__.py"))}


def test_at_the_top_of_the_package_lie_only_rooms():
    assert {path.name for path in PACKAGE.iterdir() if path.is_file()} == {"__init__.py", "_version.py", "py.typed"}

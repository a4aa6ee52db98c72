import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_rooms_import_only_what_they_may():
    """The contracts of `[tool.importlinter]` in pyproject.toml: data flows one way."""
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(cache_dir=None))"
    checked = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    assert "3 kept, 0 broken" in checked.stdout

"""What costs seconds to import is imported by what needs it, not by the package."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "scipy", "sklearn", "matplotlib", "pandas")
HELP = """
import sys
from protoreplay import cli
sys.argv = ["protoreplay", "--help"]
try:
    cli.main()
except SystemExit as stop:
    assert not stop.code
"""


@pytest.mark.parametrize("code", ["import protoreplay", "import protoreplay.photos", HELP])
def test_nothing_heavy_is_imported(code):
    shown = f"\nimport sys\nprint([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code + shown], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "[]\n")

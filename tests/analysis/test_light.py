import subprocess
import sys


def test_results_of_finished_runs_are_read_without_pytorch():
    words = "import protoreplay.analysis.results, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], check=False, timeout=120).returncode == 0

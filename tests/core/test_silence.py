import subprocess
import sys


def test_importing_the_package_switches_reports_off():
    code = "import protoreplay, os; print(os.environ['ORT_DISABLE_TELEMETRY'], os.environ['RAY_USAGE_STATS_ENABLED'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["1", "0"]

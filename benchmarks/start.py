"""How long a newcomer waits: `protoreplay --help` (wanted: 0.5 s) and `import protoreplay` (1.5 s), bare and in use.

Each in a process of its own, the best of several: other programs on the same cores only add.

    python benchmarks/start.py
"""

import subprocess
import sys
import time
from pathlib import Path

TRIES = 7
CASES = {
    "protoreplay --help": [str(Path(sys.executable).parent / "protoreplay"), "--help"],
    "protoreplay --version": [str(Path(sys.executable).parent / "protoreplay"), "--version"],
    "import protoreplay": [sys.executable, "-c", "import protoreplay"],
    "from protoreplay import make_method": [sys.executable, "-c", "from protoreplay import make_method"],
    "from protoreplay import Classifier": [sys.executable, "-c", "from protoreplay import Classifier"],
    "python, doing nothing": [sys.executable, "-c", "pass"],
}


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


for name, command in CASES.items():
    print(f"{name}: {min(seconds(command) for _ in range(TRIES)):.2f} s")

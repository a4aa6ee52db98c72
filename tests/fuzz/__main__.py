"""`python -m tests.fuzz [SECONDS] [TARGET]...`: odd input to every reader as long as is wished; `make fuzz`: an hour.

The cases go on where the suite's end, and are the same each time; a failure says the number of its case.
"""

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.harness import MEMORY, FuzzTally, run_case
from tests.fuzz.targets import TARGETS

SLICE = 100
FIRST = 500


def main() -> int:
    """Cases of one target after the other, a slice at a time, until the time is over; 1 where one failed."""
    seconds, names = float(sys.argv[1]) if sys.argv[1:] else 3600.0, sys.argv[2:] or list(TARGETS)
    tallies = {name: FuzzTally() for name in names}
    until = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)))
        os.environ["PROTOREPLAY_CACHE"] = str(place / "cache")
        cases = {}
        for number, name in enumerate(names):
            (place / str(number)).mkdir()
            cases[name] = stack.enter_context(TARGETS[name](place / str(number)))
        while time.monotonic() < until:
            for name, case in cases.items():
                tally = tallies[name]
                for seed in range(FIRST + tally.tried, FIRST + tally.tried + SLICE):
                    before = len(tally.failures)
                    run_case(name, case, seed, tally)
                    for failure in tally.failures[before:]:
                        print(failure, file=sys.stderr, flush=True)
    print(f"{'target':14}{'tried':>10}{'refused':>10}{'held':>10}")
    for name, tally in tallies.items():
        print(f"{name:14}{tally.tried:>10,}{tally.refused:>10,}{tally.held:>10,}")
    return int(any(tally.failures for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())

"""Odd input to every reader. `PROTOREPLAY_FUZZ=5000` tries more cases; `make fuzz` tries them for an hour."""

import os
import tempfile
import time
from pathlib import Path

import pytest

from tests.fuzz.harness import MEMORY, FuzzTally, run_case
from tests.fuzz.targets import TARGETS

CASES = int(os.environ.get("PROTOREPLAY_FUZZ", "500"))


@pytest.fixture
def in_memory():
    """A folder that no disk is waited for."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
        yield Path(place)


@pytest.mark.parametrize("name", TARGETS)
def test_odd_input_is_read_or_refused_in_one_line(name, in_memory, monkeypatch):
    monkeypatch.setenv("PROTOREPLAY_CACHE", str(in_memory / "cache"))
    tally, started = FuzzTally(), time.process_time()
    with TARGETS[name](in_memory) as case:
        made = time.process_time()
        for seed in range(CASES):
            run_case(name, case, seed, tally)
    print(
        f"{name}: {tally.tried} tried, {tally.refused} refused, made in {made - started:.1f} s of CPU, "
        f"{time.process_time() - made:.1f} s for the cases"
    )
    assert not tally.failures, f"{len(tally.failures)} of {tally.tried}\n" + "\n".join(tally.failures[:5])
    assert tally.refused, "nothing was odd"


def test_a_case_that_loops_or_raises_is_a_failure(monkeypatch):
    monkeypatch.setattr("tests.fuzz.harness.SECONDS", 0.05)
    tally = FuzzTally()

    def loops(random):
        while True:
            pass

    run_case("it", loops, 0, tally)
    run_case("it", lambda random: [][0], 1, tally)
    assert (tally.tried, tally.held) == (2, 0)
    assert tally.failures[0].startswith("it 0: more than")
    assert "IndexError" in tally.failures[1]

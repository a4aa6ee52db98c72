"""How often intervals at 95 % hold the true mean, by simulation, at the numbers of seeds that people use.

    python experiments/interval_coverage.py [FILE.md]

Three intervals for the mean over seeds: Student's, which tables and figures here have; the mean ± 1.96 standard errors;
and the percentile bootstrap. Seeds are drawn from four populations whose mean is known. The last one is what methods
really do: the average accuracies recorded in results/split-cifar10, each less the mean of its method. With a file, the
page that stands in results/coverage is written to it. It takes about a minute.
"""

import shlex
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from protoreplay.analysis.results import recorded_groups
from protoreplay.core.files import write_whole
from protoreplay.metrics.intervals import student_interval
from protoreplay.report.formats import Cell, Table, table_as_markdown, table_as_text

Samples = NDArray[np.float64]
"""Seeds x draws."""
Interval = tuple[Samples, Samples]

ROOT = Path(__file__).parent.parent
SEEDS = (2, 3, 5, 10)
DRAWS, FEWER_DRAWS, RESAMPLES = 20_000, 2_000, 1_000
"""Of seeds; of seeds for the bootstrap, which takes longer; and of means within each of these."""
TITLE = "How often intervals at 95 % hold the true mean"


def normal(random: np.random.Generator, seeds: int, draws: int) -> Samples:
    return random.normal(size=(seeds, draws))


def of_images(random: np.random.Generator, seeds: int, draws: int) -> Samples:
    """45 % of 1,000 test images are right, and draws of training images move that by 2 points."""
    return random.binomial(1000, 0.45, (seeds, draws)) / 10 - 45 + random.normal(0, 2, (seeds, draws))


def near_the_top(random: np.random.Generator, seeds: int, draws: int) -> Samples:
    """98 % on average, and so skewed that one seed in twenty is below 94 %."""
    return 100 * random.beta(49, 1, (seeds, draws)) - 98


def recorded(random: np.random.Generator, seeds: int, draws: int) -> Samples:
    values = [list(group.values["avg"].values()) for group in recorded_groups(ROOT / "results" / "split-cifar10")]
    residuals = [(np.array(own) - np.mean(own)) * np.sqrt(len(own) / (len(own) - 1)) for own in values if len(own) > 1]
    return random.choice(np.concatenate(residuals), (seeds, draws))


def standard_errors(samples: Samples) -> Interval:
    mean, reach = samples.mean(0), 1.96 * samples.std(0, ddof=1) / np.sqrt(len(samples))
    return mean - reach, mean + reach


def bootstrap(samples: Samples) -> Interval:
    chosen = np.random.default_rng(0).integers(len(samples), size=(RESAMPLES, len(samples)))
    weights = np.stack([np.bincount(row, minlength=len(samples)) for row in chosen]) / len(samples)
    low, high = np.quantile(weights @ samples, (0.025, 0.975), axis=0)
    return low, high


POPULATIONS: dict[str, Callable[[np.random.Generator, int, int], Samples]] = {
    "normal": normal,
    "45 % of 1,000 test images": of_images,
    "98 %, skewed": near_the_top,
    "as recorded on split-cifar10": recorded,
}
INTERVALS: dict[str, Callable[[Samples], Interval]] = {
    "Student's (ours)": student_interval,
    "± 1.96 standard errors": standard_errors,
    "percentile bootstrap": bootstrap,
}


def coverage_table() -> Table:
    body = []
    for population, draw in POPULATIONS.items():
        for name, interval in INTERVALS.items():
            shares = []
            for seeds in SEEDS:
                samples = draw(np.random.default_rng(seeds), seeds, FEWER_DRAWS if interval is bootstrap else DRAWS)
                low, high = interval(samples)
                shares.append(100 * float(np.mean((low <= 0) & (high >= 0))))
            body.append([*map(Cell, (population, name, *(f"{share:.1f}" for share in shares)))])
    return Table(["values of seeds", "interval", *(f"{seeds} seeds" for seeds in SEEDS)], body, 2)


def main() -> None:
    table = coverage_table()
    if len(sys.argv) == 1:
        print(table_as_text(table))
        return
    path = Path(sys.argv[1])
    command = shlex.join(["python", *sys.argv])
    about = textwrap.fill(
        f"The share in per cent of {DRAWS:,} draws of seeds (for the bootstrap, {FEWER_DRAWS:,} draws with "
        f"{RESAMPLES:,} resamples each) whose interval for the mean over seeds holds the true mean. It should be 95. "
        "The intervals in tables and figures are Student's. Close to 100 %, no interval holds the mean that often.",
        width=120,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f"# {TITLE}\n\n{about}\n\n{table_as_markdown(table)}\n\nMade by\n\n```sh\n{command}\n```\n"
    write_whole(path, text.encode())


if __name__ == "__main__":
    main()

"""A paired difference between two groups of runs, as cells of a table and as fields of a record."""

from protoreplay.metrics.intervals import PairedComparison
from protoreplay.report.formats import ABSENT


def difference_cells(difference: PairedComparison | None) -> list[str]:
    """The difference with its sign, and its interval."""
    if difference is None:
        return [ABSENT, ABSENT]
    low, high = difference.low, difference.high
    return [f"{difference.difference:+.1f}", ABSENT if low is None else f"[{low:+.1f}, {high:+.1f}]"]


def difference_record(key: str, difference: PairedComparison | None) -> dict[str, float | None]:
    """By name, `KEY_difference`, `KEY_low`, `KEY_high` and `KEY_p`; None where there is no comparison."""
    return {f"{key}_{name}": getattr(difference, name, None) for name in ("difference", "low", "high", "p")}

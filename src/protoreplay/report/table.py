"""The table of results, as text, Markdown, CSV or JSON."""

import csv
import io
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields

from protoreplay import evaluation
from protoreplay.report.results import Group


@dataclass(frozen=True)
class Row:
    """One method: means over seeds, accuracies in percent, standard deviations None where there is one seed.

    `seconds` is per run; what is kept is counted after the last task, network included.
    """

    protocol: str
    method: str
    seeds: int
    avg: float
    avg_std: float | None
    final: float
    final_std: float | None
    forgetting: float
    seconds: float
    kept_numbers: int
    kept_bytes: int


def rows(groups: list[Group]) -> list[Row]:
    """One row a group."""
    return [_row(group) for group in groups]


def _row(group: Group) -> Row:
    average = [100 * evaluation.average(result.counts) for result in group.results]
    final = [100 * evaluation.final(result.counts) for result in group.results]
    return Row(
        protocol=group.protocol,
        method=group.label,
        seeds=len(group.results),
        avg=round(statistics.mean(average), 3),
        avg_std=_std(average),
        final=round(statistics.mean(final), 3),
        final_std=_std(final),
        forgetting=round(statistics.mean(100 * evaluation.forgetting(r.counts) for r in group.results), 3),
        seconds=round(statistics.mean(result.seconds for result in group.results), 3),
        kept_numbers=round(statistics.mean(result.kept_numbers for result in group.results)),
        kept_bytes=round(statistics.mean(result.kept_bytes for result in group.results)),
    )


def _std(values: list[float]) -> float | None:
    return round(statistics.stdev(values), 3) if len(values) > 1 else None


def cells(table: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Header and rows for a person to read; the protocol is a column only where there are several."""
    several = len({row.protocol for row in table}) > 1
    header = ["method", "seeds", "avg %", "final %", "forgetting", "seconds", "kept numbers", "kept bytes"]
    body = [
        [
            row.method,
            str(row.seeds),
            _with_std(row.avg, row.avg_std),
            _with_std(row.final, row.final_std),
            f"{row.forgetting:.1f}",
            f"{row.seconds:.1f}",
            f"{row.kept_numbers:,}",
            f"{row.kept_bytes:,}",
        ]
        for row in table
    ]
    if several:
        header = ["protocol", *header]
        body = [[row.protocol, *line] for row, line in zip(table, body, strict=True)]
    return header, body


def _with_std(mean: float, std: float | None) -> str:
    return f"{mean:.1f}" if std is None else f"{mean:.1f} ± {std:.1f}"


def as_text(table: list[Row]) -> str:
    """Aligned columns: words to the left, numbers to the right."""
    header, body = cells(table)
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    words = header.index("method") + 1

    def line(values: list[str]) -> str:
        padded = [
            value.ljust(width) if column < words else value.rjust(width)
            for column, (value, width) in enumerate(zip(values, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(header), line(["-" * width for width in widths]), *map(line, body)])


def as_markdown(table: list[Row]) -> str:
    """A Markdown table."""
    header, body = cells(table)
    words = header.index("method") + 1
    rule = ["---" if column < words else "---:" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *body])


def as_csv(table: list[Row]) -> str:
    """One line a row, all fields of `Row`."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in table)
    return text.getvalue().rstrip("\n")


def as_json(table: list[Row]) -> str:
    """A list of objects, all fields of `Row`."""
    return json.dumps([asdict(row) for row in table], indent=2)


FORMATS: dict[str, Callable[[list[Row]], str]] = {"text": as_text, "md": as_markdown, "csv": as_csv, "json": as_json}

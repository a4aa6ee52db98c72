"""Finished runs in a program or a notebook: as a table, a pandas frame, a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protoreplay.analysis.results import METRICS, RECORDED, Group, collect
from protoreplay.core.errors import UserError, known_name
from protoreplay.report.formats import FORMATS
from protoreplay.report.method_tables import results_table
from protoreplay.report.results_page import write_results_page

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Results:
    """Finished runs, grouped by what was compared; a notebook shows them as a table.

    Attributes:
        groups: the runs of one method with one set of settings on one kind of stream, the best average first.
        unfinished: how many more runs are there.
    """

    groups: list[Group]
    unfinished: int = 0

    @classmethod
    def read(cls, *folders: Path | str) -> "Results":
        """The runs in some folders, or what is recorded of them."""
        return cls(*collect(*folders))

    def table(
        self,
        format: str = "text",
        metrics: Sequence[str] | None = None,
        spread: str = "std",
        against: str | None = None,
    ) -> str:
        """What `protoreplay table` prints."""
        known_name("format", format, FORMATS)
        return FORMATS[format](results_table(self.groups, metrics, spread, against))

    def frame(self, metrics: Sequence[str] | None = None) -> "pandas.DataFrame":
        """A pandas frame with one row a run: protocol, method, seed, and the metrics; it needs the package pandas."""
        for name in metrics or ():
            known_name("metric", name, METRICS)
        try:
            import pandas
        except ImportError:
            raise UserError("data frames need pandas: pip install 'protoreplay[frame]'") from None
        rows: list[dict[str, Any]] = []
        for group in self.groups:
            for result in group.results:
                seed = result.config.seed
                row = {"protocol": group.protocol, "method": group.label, "seed": seed}
                rows.append(row | {key: group.values[key][seed] for key in metrics or RECORDED})
        return pandas.DataFrame(rows)

    def report(self, path: Path | str) -> None:
        """Write the page of `protoreplay report`."""
        write_results_page(self.groups, self.unfinished, Path(path))

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        from protoreplay.report.html_parts import table_element

        return table_element(results_table(self.groups), "Means over seeds")

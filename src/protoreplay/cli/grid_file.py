"""`bench --grid FILE.toml`: a comparison in one file, with its tables and figures."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from protoreplay.cli.options import method_names, parse_seeds, parse_width
from protoreplay.core.errors import UserError, known_name
from protoreplay.core.files import write_whole
from protoreplay.core.settings import Settings

if TYPE_CHECKING:
    from protoreplay.experiments.spec import OtherSource, RunSpec


class GridTable(Settings):
    """One table of the comparison."""

    metrics: tuple[str, ...] = ()
    """Columns, as in `table --metrics`; the default columns if empty."""
    spread: str = "std"
    """`std`, `sem` or `ci`."""
    against: str | None = None
    """The method that the others are compared with."""
    format: str = "text"
    """`text`, `md`, `csv`, `json` or `latex`."""
    file: Path | None = None
    """File to write; without it, the table is printed."""


class GridFigures(Settings):
    """The figures of the comparison."""

    folder: Path = Path("figures")
    """Folder to write to."""
    width: str | None = None
    """Width of the figures, such as `3.3in`."""


class GridFile(Settings):
    """A comparison: its runs, and the tables, figures and page made from them."""

    protocol: str = ""
    """A protocol from `protoreplay protocols`."""
    methods: tuple[str, ...] = ("all",)
    """Methods from `protoreplay methods`, or your own."""
    seeds: int | str | tuple[int, ...] = 3
    """The number of seeds, or the seeds: `5`, `"100-104"`, `[1, 7]`."""
    evaluation: Literal["test", "validation"] = "test"
    """The images that the runs are evaluated on."""
    encoder: str = ""
    """A frozen encoder for all methods, as in `--encoder`."""
    out: Path | None = None
    """The folder of the runs; by default `runs/PROTOCOL`."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the protocol or the methods, as in `--set`."""
    vary: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Settings with several values each, as in `--vary`."""
    table: tuple[GridTable, ...] = (GridTable(),)
    """The tables."""
    figures: GridFigures | None = None
    """The figures; by default none."""
    report: Path | None = None
    """The HTML page; by default none."""

    @classmethod
    def read(cls, path: Path) -> "GridFile":
        """Read a comparison from a file; a mistake in it is a `UserError` that names the key."""
        try:
            said = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{path} is not a TOML file: {error}") from None
        tables = said.get("table", [])
        if isinstance(tables, dict):
            said["table"] = [tables]
        found = cls.parse(said, str(path))
        if not found.protocol:
            raise UserError(f"{path}: the key `protocol` is missing")
        found.check()
        return found

    def check(self) -> None:
        """Raise a `UserError` for a mistake that would otherwise come up after all runs."""
        from protoreplay.analysis.results import METRICS
        from protoreplay.report.formats import FORMATS
        from protoreplay.report.method_tables import SPREADS

        for table in self.table:
            known_name("format", table.format, FORMATS)
            known_name("spread", table.spread, SPREADS)
            for name in table.metrics:
                known_name("metric", name, METRICS)
        if self.figures and self.figures.width:
            parse_width(self.figures.width)

    def specs(self, device: str, keep: bool, other_source: "OtherSource") -> "list[RunSpec]":
        """The runs."""
        from protoreplay.experiments.spec import resolve_grid

        seeds = self.seeds
        numbers = list(seeds) if isinstance(seeds, tuple) else parse_seeds(str(seeds), self.evaluation)
        return resolve_grid(
            self.protocol,
            method_names(",".join(self.methods), bool(self.encoder)),
            numbers,
            {key: _as_given(value) for key, value in self.settings.items()},
            self.evaluation,
            self.vary,
            device,
            keep,
            self.encoder,
            other_source,
        )

    def write(self, groups: Sequence[Any], unfinished: int) -> list[str]:
        """Write tables, figures and page; returns what to print: the tables without a file, and the paths."""
        from protoreplay.report.formats import FORMATS
        from protoreplay.report.method_tables import results_table
        from protoreplay.report.results_page import write_figures, write_results_page

        printed, members = [], list(groups)
        for one in self.table:
            text = FORMATS[one.format](results_table(members, one.metrics or None, one.spread, one.against))
            if one.file:
                one.file.parent.mkdir(parents=True, exist_ok=True)
                write_whole(one.file, f"{text}\n".encode())
            printed.append(str(one.file) if one.file else text)
        if self.figures:
            width = parse_width(self.figures.width) if self.figures.width else None
            printed += map(str, write_figures(members, self.figures.folder, width))
        if self.report:
            write_results_page(members, unfinished, self.report)
            printed.append(str(self.report))
        return printed


def _as_given(value: Any) -> Any:
    """A list as the command line writes it."""
    return ",".join(map(str, value)) if isinstance(value, list) else value

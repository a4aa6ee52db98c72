"""One self-contained HTML page that opens offline."""

import base64
import itertools
import json
from pathlib import Path

import jinja2

from protoreplay.files import write_whole
from protoreplay.report import figures, table
from protoreplay.report.results import Group


def write_page(groups: list[Group], unfinished: int, path: Path) -> list[Path]:
    """Write the page to `path` and each figure as a PNG beside it; returns all that was written."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("protoreplay", "report"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    sections, written = [], [path]
    for protocol, members in itertools.groupby(groups, key=lambda group: group.protocol):
        part = list(members)
        picture = figures.render(figures.accuracy_curves(part), "png")
        written.append(path.with_name(f"{path.stem}-{protocol}-accuracy.png"))
        write_whole(written[-1], picture)
        header, body = table.cells(table.rows(part))
        image = base64.b64encode(picture).decode()
        sections.append({"protocol": protocol, "header": header, "body": body, "image": image})
    page = environment.get_template("page.html").render(
        title=", ".join(section["protocol"] for section in sections),
        runs=sum(len(group.results) for group in groups),
        unfinished=unfinished,
        sections=sections,
        configs=[(group.label, json.dumps(group.results[0].config, indent=2)) for group in groups],
    )
    write_whole(path, page.encode())
    return written

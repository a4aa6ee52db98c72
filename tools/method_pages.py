"""Bring the generated parts of docs/methods/*.md up to date: settings from the code, numbers from results/.

python tools/method_pages.py
"""

import json
from pathlib import Path
from typing import Any

from protoreplay.core.files import write_whole
from protoreplay.methods import presets, registry

ROOT = Path(__file__).parent.parent
MARK = "<!-- From here on written by tools/method_pages.py -->"


def page_names() -> dict[str, list[str]]:
    """The names of the registry on each page, by the page's name: the first recipe of a class gives it."""
    pages: dict[type, list[str]] = {}
    for name, recipe in registry.METHODS.items():
        pages.setdefault(recipe.method, []).append(name)
    return {names[0]: names for names in pages.values()}


def generated(names: list[str]) -> str:
    fields = registry.METHODS.get(names[0]).method.Config.model_fields
    lines = [MARK, "", "## Settings", ""]
    if fields:
        lines += [f"| setting | {' | '.join(names)} | |", "|---|" + "---|" * len(names) + "---|"]
        configs = [registry.METHODS.get(name).settings({}, {}, name) for name in names]
        for key, field in fields.items():
            values = " | ".join(f"`{getattr(config, key)}`" for config in configs)
            lines.append(f"| `{key}` | {values} | {' '.join((field.description or '').split())} |")
        lines += ["", "A protocol may prescribe others: `protoreplay protocols show PROTOCOL`."]
    else:
        lines += ["None."]
    lines += [line for name in names for line in tuned(name)]
    return "\n".join([*lines, "", "## Numbers", "", *numbers(names), ""])


def tuned(name: str) -> list[str]:
    """What `NAME@tuned` stands for, and how it was found."""
    lines = []
    for entry in presets.preset_entries():
        if entry.method == name and isinstance(entry.source, presets.TuningRecord):
            chosen = ", ".join(f"`{key}={_short(value)}`" for key, value in entry.settings.items())
            source, where = entry.source, f"`{name}@{entry.preset}` on `{entry.protocol}`"
            reached = f"on validation images of {source.tasks} tasks avg {source.validation_avg:.1f} %"
            lines += ["", f"{where}: {chosen} ({reached}), by", "", "```text", source.command, "```"]
    return lines


def _short(value: Any) -> str:
    return f"{value:g}" if type(value) is float else str(value)


def numbers(names: list[str]) -> list[str]:
    lines = []
    for path in sorted((ROOT / "results").glob("*/table.json")):
        found = [row for row in json.loads(path.read_text()) if row["method"].partition("@")[0] in names]
        for row in found:
            avg, final = (_spread(row, key) for key in ("avg", "final"))
            lines.append(
                f"| {row['method']} | {row['protocol']} | {row['seeds']} | {avg} | {final} | {row['kept_numbers']:,} | "
                f"[{path.parent.name}](../../results/{path.parent.name}/README.md) |"
            )
    if not lines:
        return ["None recorded yet."]
    head = ["| method | protocol | seeds | avg % | final % | kept numbers | made by |", "|---|---|---|---|---|---|---|"]
    return [*head, *lines]


def _spread(row: dict[str, Any], key: str) -> str:
    """A mean, and its standard deviation where there is more than one seed."""
    std = row[f"{key}_std"]
    return f"{row[key]:.1f}" if std is None else f"{row[key]:.1f} ± {std:.1f}"


def pages() -> dict[Path, str]:
    """Each page as it should be."""
    result = {}
    for name, names in page_names().items():
        path = ROOT / "docs" / "methods" / f"{name}.md"
        written = path.read_text().partition(MARK)[0].rstrip()
        result[path] = f"{written}\n\n{generated(names)}"
    return result


if __name__ == "__main__":
    for path, text in pages().items():
        write_whole(path, text.encode())

"""Write results/README.md and docs/results.md from what is recorded under results/.

    python tools/results_page.py

Every accuracy is computed from a `counts.csv` there. A folder that has the name of a protocol holds all methods on it;
any other is shown below with a table of its own. `tools/record.py` writes such folders.
"""

import csv
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from protoreplay.analysis.results import Group, Result
from protoreplay.core.files import write_whole
from protoreplay.experiments.run_config import RunConfig
from protoreplay.experiments.spec import resolve
from protoreplay.methods.registry import METHODS
from protoreplay.metrics.accuracy import Count
from protoreplay.metrics.intervals import paired
from protoreplay.report import formats, table
from protoreplay.report.claims_table import claims_table

ROOT = Path(__file__).parent.parent
PROTOCOLS = ("split-cifar10", "permuted-mnist", "split-mini-imagenet")
ABSENT = "Not recorded yet"
INTRO = """# Results

This page is written by `python tools/results_page.py`, every accuracy from a `counts.csv` in the folder that is linked
beside it: right answers on task *j* after task *i*, for every method and seed. *avg* is the mean over the tasks of the
accuracy on everything seen so far, *final* that after the last task, in per cent, mean ± standard deviation over seeds.
`make results` repeats all of it (hours; it resumes), `make results-quick` a sample in about ten minutes.
"""
CLAIMS = """## What the paper claims, what we measured

`vpr-paper` is the method of the paper's text, run on ten fixed images of each class; the table is that of
`protoreplay table RUNS --claims` over the runs recorded here.
"""
TUNED = "Settings chosen by `protoreplay tune` on validation images of the first two tasks."
NOTES = {
    "permuted-mnist-full": "All images in each of ten tasks, published strengths; `l2 strength=0` is fine-tuning.",
    "permuted-mnist-tuned": TUNED,
    "split-cifar10-tuned": TUNED,
    "split-cifar10-joint-layer": "The same layer with samples of prototypes replayed, and with all images stored.",
}


def groups(folder: Path) -> list[Group]:
    """The runs recorded in a folder, as they were collected from the runs themselves."""
    configs = folder / "configs.json"
    known: dict[str, Any] = json.loads(configs.read_text()) if configs.exists() else {}
    counts: dict[str, dict[int, list[Count]]] = defaultdict(lambda: defaultdict(list))
    with (folder / "counts.csv").open(newline="") as file:
        for label, seed, *numbers in list(csv.reader(file))[1:]:
            counts[label][int(seed)].append(Count(*map(int, numbers)))
    found = []
    for row in json.loads((folder / "table.json").read_text()):
        label = row["method"]
        config = known.get(label) or _without_settings(row)
        kept = row["seconds"], row["kept_numbers"], row["kept_bytes"]
        results = [
            Result(RunConfig(**config, seed=seed, versions={}), rows, *kept) for seed, rows in counts[label].items()
        ]
        found.append(Group(row["protocol"], label, results))
    return found


def _without_settings(row: dict[str, Any]) -> dict[str, Any]:
    """For folders of before settings were recorded: they can be shown, but not held against claims."""
    protocol, method = ({"name": row[key], "settings": {}} for key in ("protocol", "method"))
    return {"protocol": protocol, "method": method, "known_classes": [], "evaluation": "test"}


def everything(results: Path) -> dict[str, list[Group]]:
    """By folder, what is recorded in it."""
    return {path.parent.name: groups(path.parent) for path in sorted(results.glob("*/counts.csv"))}


def main_table(recorded: dict[str, list[Group]]) -> list[str]:
    """All methods on the three protocols, the best on the first one first; seeds stand in the head, or where fewer."""
    by_label = [{group.label: group for group in recorded.get(name, [])} for name in PROTOCOLS]
    labels = list(dict.fromkeys(label for column in by_label for label in column))
    seeds = [max((len(group.results) for group in column.values()), default=0) for column in by_label]
    heads = [
        f"{name} ({f'seeds: {n}' if n else ABSENT.lower()}) avg | final"
        for name, n in zip(PROTOCOLS, seeds, strict=True)
    ]
    lines = [f"| method | {' | '.join(heads)} |", "|---|" + "---:|---:|" * len(PROTOCOLS)]
    for label in labels:
        cells = [cell for column, n in zip(by_label, seeds, strict=True) for cell in _cells(column.get(label), n)]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return [*lines, ""] if labels else []


def _cells(group: Group | None, seeds: int) -> list[str]:
    if group is None:
        return [formats.ABSENT] * 2
    fewer = "" if len(group.results) == seeds else f" (seeds: {len(group.results)})"
    return [_spread(group, "avg"), _spread(group, "final") + fewer]


def _spread(group: Group, key: str) -> str:
    summary = group.summaries[key]
    return f"{summary.mean:.1f}" + (f" ± {summary.std:.1f}" if summary.std is not None else "")


def standing(found: Sequence[Group]) -> str:
    """Where VPR with its best preset stands among the methods that keep no more numbers than it does."""
    ours = [group for group in found if _name(group) == "vpr"]
    if not ours:
        return "`vpr` is not among them."
    best = max(ours, key=lambda group: group.summaries["avg"].mean)
    kept = best.results[0].kept_numbers
    rivals = [group for group in found if _name(group) != "vpr" and group.results[0].kept_numbers <= kept]
    start = f"`{best.label}` keeps {kept:,.0f} numbers. "
    if not rivals:
        return f"{start}No other method keeps as few."
    leads = sorted((_lead(best, rival), rival.label) for rival in rivals)
    words = [f"`{label}` by {abs(points):.1f} points of avg{interval}" for (points, interval), label in leads]
    above = [word for word, ((points, _), _) in zip(words, leads, strict=True) if points <= 0]
    if above:
        return f"{start}Of {len(rivals)} that keep no more, {len(above)} above it: {', '.join(above)}."
    if len(rivals) == 1:
        return f"{start}It stands above the one method that keeps no more, {words[0]}."
    return f"{start}It stands above all {len(rivals)} methods that keep no more; above the nearest, {words[0]}."


def departures(found: Sequence[Group]) -> str:
    """Which settings are not those of the protocol and the published ones, and of which methods."""
    methods: dict[str, list[str]] = defaultdict(list)
    for group in found:
        config = group.results[0].config
        ours = config.protocol.settings | config.method.settings
        if ours:
            spec = resolve(group.protocol, config.method.name, 0, {})
            usual = spec.stream_settings.model_dump() | spec.method_settings.model_dump()
            for key, value in ours.items():
                if usual.get(key, ...) != value:
                    methods[f"`{key}={value}`"].append(group.label)
    of = {key: "all" if len(labels) == len(found) else ", ".join(labels) for key, labels in methods.items()}
    return f"Other than published: {'; '.join(f'{key} ({labels})' for key, labels in of.items())}. " if of else ""


def absent(found: Sequence[Group]) -> str:
    """Which methods were not run."""
    names = [f"`{name}`" for name in METHODS if name not in {_name(group) for group in found}]
    return f"Not run: {', '.join(names)}. " if names else ""


def _lead(best: Group, rival: Group) -> tuple[float, str]:
    """By how many points the first is ahead on common seeds, and the interval in words."""
    ours, theirs = best.values["avg"], rival.values["avg"]
    lead = paired([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())])
    return lead.difference, "" if lead.low is None else f" (95 % interval {lead.low:+.1f} to {lead.high:+.1f})"


def _name(group: Group) -> str:
    return group.label.split()[0].partition("@")[0]


def page(results: Path, prefix: str) -> str:
    """The whole page; `prefix` leads from it to the folders of results."""
    recorded = everything(results)
    lines = [INTRO, *main_table(recorded)]
    for name in PROTOCOLS:
        found = recorded.get(name)
        about = (
            f"{standing(found)} {departures(found)}{absent(found)}{_link(results, name, prefix)}"
            if found
            else f"{ABSENT}."
        )
        lines += [f"## {name}", "", about, ""]
    held = claims_table([group for found in recorded.values() for group in found])
    lines += [CLAIMS, *verdicts(held.records), formats.as_markdown(held), ""]
    others = [name for name in recorded if name not in PROTOCOLS]
    for name in others:
        shown = table.results(recorded[name], ["avg", "final", "forgetting", "kept_numbers"])
        about = f"{NOTES.get(name, '')} {_link(results, name, prefix)}".strip()
        lines += [f"## {name}", "", about, "", formats.as_markdown(shown), ""]
    lines += ["## Also", ""]
    for path in sorted(results.glob("*/README.md")):
        if path.parent.name not in recorded:
            title = path.read_text().partition("\n")[0].removeprefix("# ")
            lines.append(f"- [{title}]({prefix}{path.parent.name}/README.md)")
    return "\n".join(lines) + "\n"


def verdicts(records: Sequence[dict[str, Any]]) -> list[str]:
    """Which claims hold and which do not, plainly."""
    words = {"holds": "Hold", "does not hold": "Do not hold", "undecided": "Not decided by these seeds"}
    lines = []
    for verdict, start in words.items():
        if texts := [record["claim"] for record in records if record["verdict"] == verdict]:
            lines.append(f"- **{start}** ({len(texts)}): {'; '.join(texts)}.")
    return [*lines, ""]


def _link(results: Path, name: str, prefix: str) -> str:
    link = f"The command, the machine and every count: [{name}]({prefix}{name}/README.md)"
    drawn = (results / name / "report.html").exists()
    return f"{link}; with figures: [report]({prefix}{name}/report.html)." if drawn else f"{link}."


def pages() -> dict[Path, str]:
    """Both pages as they should be."""
    results = ROOT / "results"
    return {results / "README.md": page(results, ""), ROOT / "docs" / "results.md": page(results, "../results/")}


if __name__ == "__main__":
    for path, text in pages().items():
        write_whole(path, text.encode())

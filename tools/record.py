"""Record a folder of finished runs under results/: the table, every count it comes from, what each
method keeps, and the commands that made it.

python tools/record.py RUNS results/NAME "protoreplay bench ..." ["another command into the same folder"]
python tools/record.py --onto RUNS results/NAME "protoreplay bench ..."

With --onto, the methods of these runs take the place of those recorded there, and the others stay as they are. Seeds
recorded there with the same settings stay too, where these runs do not have them: seeds add up over several sittings.
"""

import csv
import io
import json
import os
import platform
import statistics
import sys
from pathlib import Path

from protoreplay.analysis.results import CONFIGS, KEPT, Group, collect, recorded_groups
from protoreplay.core.files import write_whole
from protoreplay.metrics.accuracy import average_accuracy
from protoreplay.report import formats, method_tables


def _added_up(new: list[Group], old: list[Group]) -> list[Group]:
    """The new groups, with the seeds of the old that they lack where settings are the same, and the other old ones."""
    recorded = {group.label: group for group in old}
    made = []
    for group in new:
        before = recorded.pop(group.label, None)
        results = list(group.results)
        if before and before.results[0].config.without_seed() == group.results[0].config.without_seed():
            seeds = {result.config.seed for result in results}
            results += [result for result in before.results if result.config.seed not in seeds]
        made.append(Group(group.protocol, group.label, sorted(results, key=lambda result: result.config.seed)))
    return [*made, *recorded.values()]


def record(runs: Path, target: Path, commands: str, onto: bool = False) -> None:
    groups, unfinished = collect(runs)
    if unfinished:
        sys.exit(f"{unfinished} runs are unfinished")
    versions = ", ".join(f"{name} {value}" for name, value in groups[0].results[0].config.versions.items())
    if onto:
        before = (target / "README.md").read_text().split("```")[1].strip("\n")
        commands = f"{before}\n{commands}"
        groups = _added_up(groups, recorded_groups(target))
        groups.sort(key=lambda group: -statistics.fmean(average_accuracy(result.counts) for result in group.results))
    made = method_tables.results_table(groups)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", "seed", "trained", "tested", "n", "correct"])
    for group in groups:
        for result in group.results:
            writer.writerows([group.label, result.config.seed, *count] for count in result.counts)
    machine = f"{os.cpu_count()} cores ({platform.machine()}), {versions}"
    head = f"# {target.name}\n\n```\n{commands}\n```\n\n{machine}. Each run on one thread."
    page = f"{head}\n\n{formats.table_as_markdown(made)}\n"
    # Seeds and versions apart: what claims are about.
    configs = {group.label: group.results[0].config.without_seed() for group in groups}
    target.mkdir(parents=True, exist_ok=True)
    write_whole(target / "README.md", page.encode())
    write_whole(target / "table.json", (formats.table_as_json(made) + "\n").encode())
    write_whole(target / CONFIGS, (json.dumps(configs, indent=1) + "\n").encode())
    kept = {group.label: dict(group.results[0].kept_items) for group in groups}
    write_whole(target / KEPT, (json.dumps(kept, indent=1) + "\n").encode())
    write_whole(target / "counts.csv", text.getvalue().encode())


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--onto"]
    record(Path(words[0]), Path(words[1]), "\n".join(words[2:]), onto="--onto" in sys.argv)

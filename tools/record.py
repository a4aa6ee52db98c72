"""Record a folder of finished runs under results/: the table, every count it comes from, and the commands that made it.

python tools/record.py RUNS results/NAME "protoreplay bench ..." ["another command into the same folder"]
"""

import csv
import io
import json
import os
import platform
import sys
from pathlib import Path

from protoreplay.analysis.results import collect
from protoreplay.core.files import write_whole
from protoreplay.report import formats, method_tables


def record(runs: Path, target: Path, commands: str) -> None:
    groups, unfinished = collect(runs)
    if unfinished:
        sys.exit(f"{unfinished} runs are unfinished")
    made = method_tables.results_table(groups)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", "seed", "trained", "tested", "n", "correct"])
    for group in groups:
        for result in group.results:
            writer.writerows([group.label, result.config.seed, *count] for count in result.counts)
    versions = ", ".join(f"{name} {value}" for name, value in groups[0].results[0].config.versions.items())
    machine = f"{os.cpu_count()} cores ({platform.machine()}), {versions}"
    head = f"# {target.name}\n\n```\n{commands}\n```\n\n{machine}. Each run on one thread."
    page = f"{head}\n\n{formats.table_as_markdown(made)}\n"
    # Seeds and versions apart: what claims are about.
    configs = {group.label: group.results[0].config.without_seed() for group in groups}
    target.mkdir(parents=True, exist_ok=True)
    write_whole(target / "README.md", page.encode())
    write_whole(target / "table.json", (formats.table_as_json(made) + "\n").encode())
    write_whole(target / "configs.json", (json.dumps(configs, indent=1) + "\n").encode())
    write_whole(target / "counts.csv", text.getvalue().encode())


if __name__ == "__main__":
    record(Path(sys.argv[1]), Path(sys.argv[2]), "\n".join(sys.argv[3:]))

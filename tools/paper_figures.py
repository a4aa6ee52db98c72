"""The paper, figure by figure: draw docs/paper/*.svg and write docs/paper.md from what is recorded under results/.

    python tools/paper_figures.py
    python tools/paper_figures.py RUNS "protoreplay bench split-cifar10 ... --keep-prototypes --out RUNS"

The second form first records in results/prototype-motion how prototypes moved in runs that kept them, and the command
that made these. What is not recorded yet is named on the page, with the command that makes it.
"""

import csv
import dataclasses
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from recorded import ABLATED, all_recorded, recorded_ablations

from protoreplay.analysis import claims
from protoreplay.analysis.claims import VPR, Form, gather_evidence
from protoreplay.analysis.kept_runs import find_kept_runs
from protoreplay.analysis.motion import MOTION_FILE, MotionRecord, read_motion
from protoreplay.analysis.results import Group
from protoreplay.analysis.verdicts import judge_claims
from protoreplay.core.files import write_whole
from protoreplay.metrics.intervals import paired_t_test
from protoreplay.report import layout
from protoreplay.report.ablation_page import ABLATION_CAPTION, ablation_figure, ablations_in_words
from protoreplay.report.analysis_figures import Palette, embedding_maps_figure, motion_figure, similarity_figure
from protoreplay.report.analysis_page import write_analysis_page
from protoreplay.report.claims_table import claims_summary
from protoreplay.report.figures import save_figure, standard_errors_figure
from protoreplay.report.results_page import seed_ranges

ROOT = Path(__file__).parent.parent
MOVED = "prototype-motion"
"""The folder of what is recorded of runs that kept their prototypes."""
NUMBERS = ("maps", "motion", "similarity", "seeds")
MAPPED_TASKS = (1, 3)
"""After which the paper shows its maps."""
INTRO = """# The paper, figure by figure

These are the figures of the paper's experiments on split CIFAR-10, drawn from our own runs. VPR is `vpr-paper` here,
the method as the paper's text has it. `python tools/paper_figures.py` draws them from what is recorded under
[results/](../results/README.md) and writes this page.

"""
AGAIN = """## To do it again

`tools/record.py` records runs under `results/`, and `tools/paper_figures.py` does the same for prototypes and draws the
figures. Each takes the runs and the command that made them.

```sh
# not run by the tests: hundreds of runs on CIFAR-10 take many hours
record() { python tools/record.py runs/results/$1 results/$1 "$2"; }
bench="protoreplay bench split-cifar10 --methods all --seeds 40 --out runs/results/split-cifar10"
ablate="protoreplay ablate split-cifar10 --methods vpr-paper --seeds 40 --out runs/results/ablations"
kept=runs/results/split-cifar10-kept
keep="protoreplay bench split-cifar10 --methods vpr-paper --seeds 10 --keep-prototypes --out $kept"
$bench && record split-cifar10 "$bench"
$ablate && record ablations "$ablate"
$keep && python tools/paper_figures.py $kept "$keep"
```
"""
MAPS_IN_WORDS = "t-SNE maps of the training images and the prototypes of all classes seen, after tasks 1 and 3."
MAPS_CAPTION = (
    "t-SNE maps of the latent means of the training images (dots) and of the prototypes (hollow squares) after tasks 1 "
    "and 3, each with axes of its own."
)
MOTION_CAPTION = (
    "Prototype means after each task, in the first three principal axes of the latent space after task 1: in space, "
    "and seen along each axis. Black squares are the last positions."
)
SIMILARITY_IN_WORDS = "Matrices of similarity between classes, of visual features and of motion, and pairs as points."
SIMILARITY_CAPTION = (
    "Minus the Euclidean distance between classes: of mean features of {} (in the paper, of the second last layer of "
    "VGG16, which is `timm:vgg16.tv_in1k` where timm is installed), and of the motion of prototypes from first to last."
)


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the page.

    Attributes:
        name: of its file.
        title: heading.
        figure: None where its runs are not recorded.
        alt: the figure in words.
        caption: what is seen, of which seeds, made by which command.
    """

    name: str
    title: str
    figure: Figure | None = None
    alt: str = ""
    caption: str = ""

    def text(self) -> str:
        """Its part of the page."""
        shown = f"![{self.alt}](paper/{self.name}.svg)\n\n{self.caption}" if self.figure else "Not recorded yet."
        return f"## {self.title}\n\n{shown}\n"


def record_motion(runs: Path, target: Path, command: str) -> None:
    """Analyse runs that kept their prototypes, and keep the numbers behind the figures."""
    found = find_kept_runs(runs)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        write_analysis_page(found, Path(place))
        for name in (MOTION_FILE, *(f"{name}.csv" for name in NUMBERS)):
            shutil.copyfile(Path(place) / name, target / name)
    said = (
        "# Prototype motion\n\n"
        f"```\n{command}\nprotoreplay analyze {runs} -o inside\n```\n\n"
        f"`{MOTION_FILE}` holds for every seed how far prototypes moved outward, in percent, and the correlation of "
        "looking alike and moving alike. The other files hold the numbers behind the figures of "
        f"[the paper, figure by figure](../../docs/paper.md), of seed {found[0].seed}: what `protoreplay analyze` "
        "writes under the same names.\n"
    )
    write_whole(target / "README.md", said.encode())


def paper_figures(results: Path) -> list[PaperFigure]:
    """All figures, in the paper's order, of what is recorded."""
    recorded = all_recorded(results)
    groups = [group for found in recorded.values() for group in found]
    with mpl.rc_context(layout.STYLE):
        accuracy = _accuracy(groups, results)
        ablations = _ablations(recorded.get(ABLATED, []), results)
        maps, motion, similarity = _motion(results / MOVED)
    return [accuracy, maps, ablations, motion, similarity]


def _accuracy(groups: Sequence[Group], results: Path) -> PaperFigure:
    empty = PaperFigure("accuracy", "Accuracy after each task (figure 3a)")
    evidence = gather_evidence(groups)
    found = [evidence.of(Form(name))[:1] for name in (VPR.method, *claims.COMPARED)]
    if not all(found):
        return empty
    shown = [Group(group.protocol, group.results[0].config.method.name, group.results) for (group,) in found]
    said = "; ".join(f"{group.label} {group.summaries['avg'].mean:.1f} %" for group in shown)
    seeds = "; ".join(dict.fromkeys(map(_seeds, shown)))
    caption = (
        "Accuracy on all classes seen so far, mean and standard error over seeds; the dotted line is chance. Seeds: "
        f"{seeds}. {_made_by(results / claims.PROTOCOL)}"
    )
    alt = f"Lines of accuracy after each task. Average over tasks: {said}."
    return dataclasses.replace(empty, figure=standard_errors_figure(shown), alt=alt, caption=caption)


def _ablations(groups: Sequence[Group], results: Path) -> PaperFigure:
    empty = PaperFigure("ablations", "Ablations (figure 4)")
    measured = recorded_ablations(groups).get(VPR.method, [])
    papers = gather_evidence(groups).of(VPR)
    if not measured or measured[0].group not in papers:
        return empty
    where = f"Seeds: {_seeds(measured[0].group)}. {_made_by(results / ABLATED)}"
    figure, alt = ablation_figure(measured), ablations_in_words(measured)
    return dataclasses.replace(empty, figure=figure, alt=alt, caption=f"{ABLATION_CAPTION} {where}")


def _motion(folder: Path) -> list[PaperFigure]:
    maps = PaperFigure("maps", "Embedding maps (figures 3b and 3c)")
    motion = PaperFigure("motion", "Prototype motion (figure 5a)")
    similarity = PaperFigure("similarity", "Looking alike and moving alike (figures 5b and 5c)")
    record = gather_evidence([], read_motion([folder])).motion
    if record is None:
        return [maps, motion, similarity]
    points, paths, pairs = (_records(folder / f"{name}.csv") for name in NUMBERS[:3])
    names = list(dict.fromkeys(row["class"] for row in paths))
    palette = Palette(names, range(len(names)))
    shown = [row for row in points if row["map"] == "t-SNE" and row["task"] in MAPPED_TASKS]
    which = f"Seed {min(record.outward)}. {_made_by(folder)}"
    return [
        dataclasses.replace(
            maps, figure=embedding_maps_figure(shown, palette), alt=MAPS_IN_WORDS, caption=f"{MAPS_CAPTION} {which}"
        ),
        dataclasses.replace(
            motion,
            figure=motion_figure(paths, palette),
            alt=f"Paths of the prototypes of {len(names)} classes in three axes.",
            caption=f"{MOTION_CAPTION} {which} {_over_seeds(record, 'outward')}",
        ),
        dataclasses.replace(
            similarity,
            figure=similarity_figure(pairs, palette),
            alt=SIMILARITY_IN_WORDS,
            caption=f"{SIMILARITY_CAPTION.format(record.encoder)} {which} {_over_seeds(record, 'correlation')}",
        ),
    ]


def _over_seeds(record: MotionRecord, which: str) -> str:
    """A sentence with the mean over seeds and its interval."""
    by_seed: dict[int, float] = getattr(record, which)
    found = paired_t_test(list(by_seed.values()))
    if which == "outward":
        what, form, paper = "prototypes end farther from the centre than they began by", "{:+.0f} %", ""
    else:
        what, form, paper = "the correlation is", "{:.2f}", "; the paper reports 0.44"
    ends = [form.format(end) for end in (found.low, found.high) if end is not None]
    interval = f" (Student's 95 % interval {' to '.join(ends)})" if ends else ""
    return f"Over {found.seeds} seeds {what} {form.format(found.difference)}{interval}{paper}."


def _records(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of numbers; names of classes stay text, also where they are digits."""
    words = ("class", "first", "second", "map", "of")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        {key: value if key in words else int(value) if key == "task" else float(value) for key, value in row.items()}
        for row in rows
    ]


def _made_by(folder: Path) -> str:
    """The commands that its README names."""
    commands = (folder / "README.md").read_text().split("```")[1].strip("\n").splitlines()
    said = " and ".join(f"`{command}`" for command in commands)
    return f"Made by {said} ([numbers](../results/{folder.name}/README.md))."


def _seeds(group: Group) -> str:
    return seed_ranges([result.config.seed for result in group.results])


def page(results: Path, figures: Sequence[PaperFigure]) -> str:
    """The page in Markdown."""
    groups = [group for found in all_recorded(results).values() for group in found]
    summary = claims_summary(judge_claims(groups, read_motion([results / MOVED])))
    more = "All claims with their intervals stand in the table of [the results](../results/README.md)."
    return "\n".join([f"{INTRO}{summary} {more}\n", *(figure.text() for figure in figures), AGAIN])


def write(results: Path, docs: Path) -> None:
    figures = paper_figures(results)
    (docs / "paper").mkdir(parents=True, exist_ok=True)
    for one in figures:
        path = docs / "paper" / f"{one.name}.svg"
        if one.figure:
            save_figure(one.figure, path)
        else:
            path.unlink(missing_ok=True)
    write_whole(docs / "paper.md", page(results, figures).encode())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        record_motion(Path(sys.argv[1]), ROOT / "results" / MOVED, "\n".join(sys.argv[2:]))
    write(ROOT / "results", ROOT / "docs")

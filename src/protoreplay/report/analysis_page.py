"""All analyses of runs that kept their prototypes: figures, the numbers behind them, and one page."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from protoreplay.analysis import latent, visual
from protoreplay.analysis.kept_runs import KeptRun
from protoreplay.analysis.motion import MotionRecord, write_motion
from protoreplay.core.errors import UserError
from protoreplay.core.files import write_whole
from protoreplay.metrics.intervals import PairedComparison, paired_t_test
from protoreplay.report import analysis_figures as draw
from protoreplay.report import figures, layout
from protoreplay.report.analysis_figures import Palette
from protoreplay.report.formats import ABSENT, Cell, Table, table_as_csv
from protoreplay.report.html_parts import Section, figure_on_page, write_sections

MEAN = "mean"


class Analysis(NamedTuple):
    """One analysis of a run: the name of its files, heading, what is seen, the figure, and the numbers behind it."""

    name: str
    title: str
    caption: str
    figure: Figure
    records: list[dict[str, Any]]


MappedImages = Literal["training", "test"]


def write_analysis_page(
    runs: Sequence[KeptRun], folder: Path, encoder: str = visual.ENCODER, mapped: MappedImages = "training"
) -> list[Path]:
    """Analyse runs of one method, the first one in figures, and return the files written.

    Args:
        runs: by seed, at least one.
        folder: where the page `analysis.html`, each figure as PNG and PDF and its numbers as CSV go, and `motion.json`,
            which the paper's claims about motion are held against.
        encoder: whose features say how alike classes look.
        mapped: which images the maps show.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: -o takes a folder")
    first = runs[0]
    stream = first.stream()
    palette = Palette(stream.train.class_names, np.unique(first.snapshots[-1].classes).tolist())
    seen = visual.class_features(stream, palette.classes, encoder)
    with mpl.rc_context(layout.STYLE):
        made = [*_space(first, palette, mapped), *_similarity(first, palette, seen, encoder), *_answers(first, palette)]
    over_seeds = _over_seeds(runs, palette.classes, seen)
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "analysis.html", folder / "seeds.csv"]
    for one in made:
        # Laid out once, not for every file.
        one.figure.draw_without_rendering()
        one.figure.set_layout_engine("none")
        for format in ("png", "pdf"):
            written.append(folder / f"{one.name}.{format}")
            figures.save_figure(one.figure, written[-1])
        written.append(folder / f"{one.name}.csv")
        write_whole(written[-1], table_as_csv(Table([], [], 0, one.records)).encode() + b"\n")
    write_whole(written[1], table_as_csv(over_seeds).encode() + b"\n")
    written.append(write_motion(_motion(runs, encoder, over_seeds.records), folder))
    sections = [
        Section(one.title, [figure_on_page({"only": one.figure}, one.name, one.caption, one.title)], []) for one in made
    ]
    sections.append(Section("Over seeds", [], [("The figures' main numbers, for each run", over_seeds)]))
    method, protocol = first.config.method.name, first.config.protocol.name
    intro = f"The figures show seed {first.seed}. The latent space is where {method} compares images and prototypes."
    write_sections(written[0], f"Inside {method} on {protocol}", intro, sections)
    return written


def _motion(runs: Sequence[KeptRun], encoder: str, over_seeds: Sequence[dict[str, Any]]) -> MotionRecord:
    by_key = {
        key: {row["seed"]: round(row[key], 6) for row in over_seeds if row["seed"] != MEAN and row[key] is not None}
        for key in ("outward", "r")
    }
    config = runs[0].config.without_seed()
    return MotionRecord(**config, encoder=encoder, outward=by_key["outward"], correlation=by_key["r"])


def _space(run: KeptRun, palette: Palette, mapped: MappedImages) -> Iterator[Analysis]:
    """Maps of the latent space, and what moves in it."""
    snapshots, first = run.snapshots, run.snapshots[0]
    images = {
        task: (one.shots, one.shot_labels) if mapped == "training" else (one.images, one.image_labels)
        for task, one in enumerate(snapshots, start=1)
        if len(one.images)
    }
    points = {task: np.concatenate([means, snapshots[task - 1].mean]) for task, (means, _) in images.items()}
    places = {
        "t-SNE": {task: latent.tsne(each) for task, each in points.items()},
        "PCA": {task: latent.principal_axes(each, 2).project(each) for task, each in points.items()},
    }
    records = []
    for kind, by_task in places.items():
        for task, each in by_task.items():
            of_images, of_prototypes = images[task][1], snapshots[task - 1].classes
            what = [f"{mapped} image"] * len(of_images) + [draw.PROTOTYPE] * len(of_prototypes)
            for of, label, (x, y) in zip(what, [*of_images, *of_prototypes], each, strict=True):
                place = {"x": round(float(x), 4), "y": round(float(y), 4)}
                records.append({"map": kind, "task": task, "of": of, "class": palette.full(label), **place})
    caption = f"Latent means of {mapped} images (dots) and of prototypes (hollow squares). Each map has its own axes."
    yield Analysis("maps", "Embedding maps", caption, draw.embedding_maps_figure(records, palette), records)

    paths, axes = latent.prototype_paths(snapshots), latent.principal_axes(first.images, 3)
    records = [
        {"class": palette.full(label), "task": task, **{f"axis_{n}": value for n, value in enumerate(place, start=1)}}
        for label, path in paths.items()
        for task, place in zip(path.tasks, axes.project(path.means), strict=True)
    ]
    caption = (
        "Prototype means after each task in the first three principal axes of the images' latent means after task 1; "
        "black squares: the last position."
    )
    yield Analysis("motion", "Prototype motion", caption, draw.motion_figure(records, palette), records)

    tasks = range(2, len(snapshots) + 1)
    moved = np.full((len(paths), len(tasks)), np.nan)
    for row, path in enumerate(paths.values()):
        moved[row, [task - 2 for task in path.tasks[1:]]] = path.steps()
    if moved.size:
        labels = ("distance", "class", "moved in task")
        figure = draw.heat_map_figure(
            moved, [palette.name(c) for c in paths], list(map(str, tasks)), labels, percent=False
        )
        caption = "Distance in latent space between a class's prototype means before and after each task."
        yield Analysis("moved", "How far each class moved", caption, figure, _cells(moved, paths, tasks, palette))


def _similarity(run: KeptRun, palette: Palette, seen: latent.Floats, encoder: str) -> Iterator[Analysis]:
    """Whether classes that look alike move alike; nothing where fewer than three classes moved, or none did."""
    moved, look, move = _similarities(run, palette.classes, seen)
    if latent.correlation(look, move) is None:
        return
    pairs = zip(*np.triu_indices(len(moved), 1), strict=True)
    records = [
        {"first": palette.full(moved[i]), "second": palette.full(moved[j]), "visual": look[i, j], "motion": move[i, j]}
        for i, j in pairs
    ]
    caption = (
        f"Minus the Euclidean distance between classes: of mean features of {encoder} (the paper: VGG16's second last "
        "layer), and of motion vectors (last minus first prototype mean). Pearson's r over pairs of classes, p by "
        f"permuting classes {latent.PERMUTATIONS:,} times; the paper reports 0.44 on split-cifar10."
    )
    figure = draw.similarity_figure(records, palette)
    yield Analysis("similarity", "Visual similarity and prototype motion", caption, figure, records)


def _similarities(
    run: KeptRun, classes: Sequence[int], seen: latent.Floats
) -> tuple[list[int], latent.Floats, latent.Floats]:
    moved, vectors = latent.motion_vectors(latent.prototype_paths(run.snapshots))
    rows = [list(classes).index(label) for label in moved]
    return moved, latent.similarity(seen[rows]), latent.similarity(vectors.reshape(len(moved), -1))


def _answers(run: KeptRun, palette: Palette) -> Iterator[Analysis]:
    """Confidence, calibration, forgetting and confusion."""
    last, tasks = run.snapshots[-1], range(1, len(run.snapshots) + 1)
    dropped = latent.drop_dimensions(last)
    columns = zip(*dropped, strict=True)
    records = [{"dropped": s, "most_confident_dropped": a, "least_confident_dropped": b} for s, a, b in columns]
    caption = (
        "After the last task. Left: sorted variance of each dimension; black: mean over all prototypes, faint: single "
        "prototypes. Right: accuracy of the nearest prototype mean on mapped test images without some dimensions."
    )
    yield Analysis("confidence", "Confident dimensions", caption, draw.confidence_figure(last, dropped), records)

    found = latent.reliability(last.confidence, last.predicted == last.labels)
    columns = zip(found.confidence, found.accuracy, found.answers, strict=True)
    records = [{"confidence": c, "accuracy": a, "answers": int(n)} for c, a, n in columns]
    caption = "Accuracy after the last task by predicted probability; dotted: perfect calibration."
    yield Analysis("calibration", "Calibration", caption, draw.reliability_figure(found), records)

    classes, table = latent.class_accuracies(run.snapshots)
    names = [palette.name(label) for label in classes]
    figure = draw.heat_map_figure(
        100 * table, names, list(map(str, tasks)), ("accuracy (%)", "class", "after task"), percent=True
    )
    caption = "Accuracy on the test images of each class after each task, among all classes seen by then."
    yield Analysis("forgetting", "Forgetting, class by class", caption, figure, _cells(table, classes, tasks, palette))

    classes, table = latent.confusion(last)
    names = [palette.name(label) for label in classes]
    labels = ("of the class's images (%)", "class", "taken for")
    figure = draw.heat_map_figure(100 * table, names, names, labels, percent=True)
    caption = "Confusion matrix after the last task: true class (down) and predicted class (across)."
    records = [
        {"class": palette.full(a), "taken_for": palette.full(b), "share": table[i, j]}
        for i, a in enumerate(classes)
        for j, b in enumerate(classes)
    ]
    yield Analysis("confusion", "Confusion", caption, figure, records)


def _cells(
    table: latent.Floats, classes: Sequence[int] | dict[int, Any], tasks: range, palette: Palette
) -> list[dict[str, Any]]:
    """The numbers of a map of classes and tasks."""
    return [
        {"class": palette.full(label), "task": task, "value": value}
        for label, row in zip(classes, table, strict=True)
        for task, value in zip(tasks, row, strict=True)
        if np.isfinite(value)
    ]


def _over_seeds(runs: Sequence[KeptRun], classes: Sequence[int], seen: latent.Floats) -> Table:
    """One line a run: how it moved, correlation with its p, calibration error, forgetting; and means with intervals."""
    records: list[dict[str, Any]] = []
    for run in runs:
        _, look, move = _similarities(run, classes, seen)
        found = latent.correlation(look, move)
        last = run.snapshots[-1]
        calibration = latent.reliability(last.confidence, last.predicted == last.labels)
        table = latent.class_accuracies(run.snapshots)[1]
        record = {"seed": run.seed, "r": found.r if found else None, "p": found.p if found else None}
        record |= {"outward": latent.outward_motion(run.snapshots), "calibration_error": 100 * calibration.error}
        record |= {"forgetting": 100 * float(np.mean(np.nanmax(table, axis=1) - table[:, -1]))}
        records.append(record)
    forms = {"seed": "", "r": ".2f", "p": ".2g", "outward": ".1f", "calibration_error": ".1f", "forgetting": ".1f"}
    body = [
        [Cell(ABSENT if record[key] is None else format(record[key], form)) for key, form in forms.items()]
        for record in records
    ]
    if len(records) > 1:
        columns = {key: [record[key] for record in records] for key in forms if key not in ("seed", "p")}
        means = {key: None if None in column else paired_t_test(column) for key, column in columns.items()}
        records.append({"seed": MEAN, "p": None, **{key: mean and mean.difference for key, mean in means.items()}})
        body.append([Cell(_with_interval(means.get(key), form)) for key, form in forms.items()])
        body[-1][0] = Cell(MEAN)
    header = ["seed", "r of looks and motion", "p", "moved outward, %", "calibration error", "forgetting per class"]
    note = "Calibration error and forgetting are in percentage points; means have Student's 95 % interval."
    return Table(header, body, 1, [{key: record[key] for key in forms} for record in records], note)


def _with_interval(mean: PairedComparison | None, form: str) -> str:
    return ABSENT if mean is None else f"{mean.difference:{form}} [{mean.low:{form}}, {mean.high:{form}}]"

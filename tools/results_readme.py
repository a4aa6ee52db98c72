"""Write the two pages of results from what is recorded under results/; the site shows the same, with its figures.

    python tools/results_readme.py

results/README.md is the story (`results_story.py`), results/DETAILS.md has all tables, and docs/split-cifar10.png is
the picture of the project's README. Every accuracy is computed from a `counts.csv` there. A folder that has the name of
a protocol holds all methods on it; any other is shown below with a table of its own. `tools/record.py` writes such
folders.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import results_story
from recorded import all_recorded, page_names

from protoreplay.analysis.motion import read_motion
from protoreplay.analysis.results import Group, recorded_groups
from protoreplay.analysis.verdicts import JudgedClaim, judge_claims
from protoreplay.core.files import write_whole
from protoreplay.experiments.spec import resolve
from protoreplay.methods.registry import METHODS
from protoreplay.metrics.intervals import paired_t_test
from protoreplay.report import formats, method_tables
from protoreplay.report.claims_table import claims_summary, claims_table
from protoreplay.report.figures import FIGURES, draw_figure, save_figure

ROOT = Path(__file__).parent.parent
PROTOCOLS = ("split-cifar10", "permuted-mnist", "split-mini-imagenet")
FEATURES = ("dictionary", "pixels")
"""Of which there are folders such as dictionary-split-cifar10, whose methods stand in the main table too."""
PICTURED = ("vpr", "nearest-mean", "icarl", "vpr-paper", "replay", "ewc", "sgd")
ABSENT = results_story.ABSENT
STORY, DETAILS = "README.md", "DETAILS.md"
INTRO = """# All results

What follows from these tables, in five minutes, is on [the first page](STORY).

This page is written by `python tools/results_readme.py`, every accuracy from a `counts.csv` in the folder that is
linked beside it: right answers on task *j* after task *i*, for every method and seed. *avg* is the mean over the tasks
of the accuracy on everything seen so far, *final* that after the last task, in per cent, mean ± standard deviation over
seeds. `make docs` draws the figures, from the same counts, as part of the site.

Two things below are of an earlier form, until they are run again: `l2`, `ewc`, `online-ewc`, `si`, `mas` and `lwf` have
the penalties of before their strengths took the convention of their source (half as strong, or for `lwf` four times as
strong; `ewc` with true labels), and the ablations of `vpr-paper`, and its runs on the other two protocols, have a
learning rate of 1e-3 and a temperature of 1.
"""
CLAIMS = """## What the paper claims, what we measured

VPR is `vpr-paper` here, the method of the paper's text, run on ten fixed images of each class. The table is that of
`protoreplay table RUNS... --claims` over the runs recorded here.
"""
TUNED = "Settings chosen by `protoreplay tune` on validation images of the first two tasks."
DICTIONARY = (
    "Methods on the features of `vpr`'s own dictionary, without its augmentation and views: how much of its lead comes "
    "from the dictionary, and how much from the classifier."
)
SEEN = (
    "The same on mini-ImageNet. **The encoder has seen these images**: mini-ImageNet is a part of the set that it was "
    "pretrained on, so these figures say nothing about images that are new to it. Each of the first ten classes has "
    "hundreds of images and each later one ten; a method that fits all of them alike leans towards the first ten."
)
FSCIL = (
    "60 base classes, then eight sessions of five classes with five images each, on the features of `vpr`'s dictionary "
    "at 84 pixels. What counts here is the harmonic mean: a method that answers with base classes alone has a high "
    "average. Published figures after the last session are 24.4 (TOPIC, 2020), 47.6 (CEC, 2021) and 50.5 (FACT, 2022). "
    "They are not to be compared with these: they come from a ResNet-18 trained on 500 images of each base class, and "
    "are tested on 100 of each, where this copy of mini-ImageNet has 60 to 480 and 50."
)
NOTES = {
    "encoder-split-cifar10": "All methods on features of EfficientNet-Lite2, frozen and pretrained on ImageNet.",
    "encoder-split-fashion-mnist": "The same on Fashion-MNIST.",
    "encoder-split-mini-imagenet": SEEN,
    **{f"dictionary-{name}": DICTIONARY for name in PROTOCOLS},
    **{f"pixels-{name}": "References in closed form on raw pixels." for name in PROTOCOLS},
    "fscil-mini-imagenet": FSCIL,
    "ladder-split-cifar10": "From the paper's form to its closed form, one change at a time: `protoreplay ladder`.",
    "ladder-split-mini-imagenet": "The same ladder on mini-ImageNet.",
    "permuted-mnist-full": "All images in each of ten tasks, published strengths; `l2 strength=0` is fine-tuning.",
    "permuted-mnist-not-aligned": "`vpr` without finding the order of the pixels: each task has its own prototypes.",
    "permuted-mnist-tuned": TUNED,
    "split-cifar10-tuned": TUNED,
}


def main_table(recorded: dict[str, list[Group]], what: Mapping[str, str] | None = None) -> list[str]:
    """All methods on the three protocols, or those of `what`, which says what each is.

    The best on the first protocol stands first; seeds stand in the head, or where they are fewer.
    """
    by_label = [_on_any_features(recorded, name) for name in PROTOCOLS]
    labels = list(dict.fromkeys(label for column in by_label for label in column if what is None or label in what))
    seeds = [max((len(group.results) for group in column.values()), default=0) for column in by_label]
    heads = [
        f"{name} ({f'seeds: {n}' if n else ABSENT.lower()}) avg | final"
        for name, n in zip(PROTOCOLS, seeds, strict=True)
    ]
    said = " what it is |" if what else ""
    lines = [f"| method |{said} {' | '.join(heads)} |", "|---|" + "---|" * bool(what) + "---:|---:|" * len(PROTOCOLS)]
    for label in labels:
        cells = [cell for column, n in zip(by_label, seeds, strict=True) for cell in _cells(column.get(label), n)]
        lines.append(f"| {' | '.join([label, *([what[label]] if what else []), *cells])} |")
    return [*lines, ""] if labels else []


def _on_any_features(recorded: dict[str, list[Group]], protocol: str) -> dict[str, Group]:
    """By label, the methods on a protocol as they are, and those that were given features, with whose in the label."""
    found = {group.label: group for group in recorded.get(protocol, [])}
    for features in FEATURES:
        given = {f"{group.label} on {features}": group for group in recorded.get(f"{features}-{protocol}", [])}
        found |= {label.replace("randumb on pixels", "randumb"): group for label, group in given.items()}
    by_average = sorted(found.items(), key=lambda item: -item[1].summaries["avg"].mean)
    return dict(by_average)


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
    lead = paired_t_test([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())])
    return lead.difference, "" if lead.low is None else f" (95 % interval {lead.low:+.1f} to {lead.high:+.1f})"


def _name(group: Group) -> str:
    return group.label.split()[0].partition("@")[0]


def story(results: Path, details: str = DETAILS, prefix: str = "", drawn: bool = False) -> str:
    """The first page; `details` leads to the other one, and the rest is as there."""
    recorded = all_recorded(results)
    table = main_table(recorded, results_story.SHOWN)
    return results_story.story(recorded, _judged(results, recorded), table, details, prefix, drawn)


def picture(results: Path, path: Path) -> None:
    """Draw accuracy after each task for a few methods on the first protocol."""
    groups = {group.label: group for group in recorded_groups(results / PROTOCOLS[0])}
    chosen = [groups[label] for label in PICTURED if label in groups]
    save_figure(draw_figure(FIGURES["accuracy"], chosen), path)


def page(results: Path, prefix: str = "", drawn: bool = False, first: str = STORY) -> str:
    """The page of all tables.

    Args:
        results: the folder of what is recorded.
        prefix: leads from the page to the folders of results.
        drawn: whether there are figures.
        first: leads to the first page.
    """
    recorded = all_recorded(results)
    links = {name: _link(name, prefix, page_names(results / name) if drawn else []) for name in recorded}
    lines = [INTRO.replace("STORY", first), *main_table(recorded)]
    for name in PROTOCOLS:
        found = recorded.get(name)
        about = f"{standing(found)} {departures(found)}{absent(found)}{links[name]}" if found else f"{ABSENT}."
        lines += [f"## {name}", "", about, ""]
    judged = _judged(results, recorded)
    lines += [CLAIMS, claims_summary(judged), "", formats.table_as_markdown(claims_table(judged)), ""]
    others = [name for name in recorded if name not in PROTOCOLS]
    for name in others:
        parts = ["base", "novel", "harmonic"] if name.startswith("fscil") else ["forgetting"]
        shown = method_tables.results_table(recorded[name], ["avg", "final", *parts, "kept_numbers"])
        about = f"{NOTES.get(name, '')} {links[name]}".strip()
        lines += [f"## {name}", "", about, "", formats.table_as_markdown(shown), ""]
    if (coverage := results / "coverage" / "README.md").exists():
        lines += ["#" + coverage.read_text()]
    lines += ["## Also", ""]
    for path in sorted(results.glob("*/README.md")):
        if path.parent.name not in recorded and path != coverage:
            title = path.read_text().partition("\n")[0].removeprefix("# ")
            lines.append(f"- [{title}]({prefix}{path.parent.name}/README.md)")
    return "\n".join(lines) + "\n"


def _judged(results: Path, recorded: dict[str, list[Group]]) -> list[JudgedClaim]:
    groups = [group for found in recorded.values() for group in found]
    return judge_claims(groups, read_motion(sorted(results.glob("*"))))


def _link(name: str, prefix: str, drawn: Sequence[str]) -> str:
    link = f"The command, the machine and every count: [{name}]({prefix}{name}/README.md)"
    shown = " and ".join(f"[{page.removesuffix('.html')}]({prefix}{name}/{page})" for page in drawn)
    return f"{link}; with figures: {shown}." if shown else f"{link}."


if __name__ == "__main__":
    write_whole(ROOT / "results" / STORY, story(ROOT / "results").encode())
    write_whole(ROOT / "results" / DETAILS, page(ROOT / "results").encode())
    picture(ROOT / "results", ROOT / "docs" / f"{PROTOCOLS[0]}.png")

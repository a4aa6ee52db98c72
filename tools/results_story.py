"""The first page of results: what was asked, what was measured, what follows and what does not.

`tools/results_readme.py` writes it. Every number in it is computed from the counts under results/ while it is written.
"""

import re
from collections.abc import Mapping, Sequence

from recorded import CLIMBED

from protoreplay.analysis.results import Group
from protoreplay.analysis.verdicts import JudgedClaim
from protoreplay.metrics.intervals import compare_seeds
from protoreplay.report import formats
from protoreplay.report.claims_table import claims_summary
from protoreplay.report.ladder_page import ladder_table, recorded_ladder

Recorded = Mapping[str, list[Group]]

FOLDER = re.compile(r"\]\(([\w-]+)/README\.md\)")
"""A link to a folder of results."""

ABSENT = "Not recorded yet"
OURS = "variational prototypes on a frozen body, replay in closed form (ours)"
SHOWN = {
    "vpr": OURS,
    "vpr-paper": "Variational Prototype Replays as in the text of its paper",
    "icarl": "herded exemplars and distillation (a baseline of the paper)",
    "replay": "stored images mixed into each batch",
    "l2": "weights held near those of the task before (a baseline of the paper)",
    "ewc": "Elastic Weight Consolidation (a baseline of the paper)",
    "sgd": "plain fine-tuning (a baseline of the paper)",
    "joint": "retrained on all data so far, which it keeps",
    "vpr on dictionary": "`vpr` on its own body, but without augmented views",
    "slda on dictionary": "linear discriminant on the body of `vpr`",
    "acil on dictionary": "ridge regression on a random layer, on the body of `vpr`",
    "ranpac on dictionary": "ridge regression on a rectified random layer, on the body of `vpr`",
    "fecam on dictionary": "a covariance of each class, on the body of `vpr`",
    "randumb": "linear discriminant on random Fourier features of raw pixels",
    "nearest-mean": "nearest class mean of raw pixels, nothing trained",
}
"""By label, the rows of the table, with what each is."""
QUESTION = """# Results

A classifier meets new classes task by task, ten labelled images of each. It may not keep the old images, and nobody
tells it at test time which task an image is from. How much can it know in the end? Variational Prototype Replays (VPR)
answers with prototypes that have a mean and a variance, and replays them. This page says what we measured of it, in
five minutes; [all tables](DETAILS) stand on a page of their own.

*avg* is the mean over the tasks of the accuracy on everything seen so far, and *final* the accuracy after the last
task. Both are in per cent, with the standard deviation over seeds. Every number on this page is computed from the
counts that are recorded beside it, right answers on task *j* after task *i* for every method and seed. `make results`
repeats all of it in many hours, `make results-quick` a sample in about ten minutes.

## Three protocols

- **split-cifar10**: two classes, then one more in each of eight tasks, ten images of each class.
- **permuted-mnist**: the ten digits under 50 different orders of the pixels, ten images of each digit after the first.
- **split-mini-imagenet**: ten tasks of ten classes at 32 pixels; 480 images of each class in the first task, then ten.

The images are drawn once for each seed, and all methods see the same ones. Tests use the whole test set, except where
the tables say otherwise. No setting was chosen on test images.
"""
AGAINST = """## What we would not conclude

- **That the paper's figures are wrong.** Its released code draws fresh images in every epoch, up to a thousand of a
  class. Our protocol fixes ten, as its text does. We measured the method under that rule, not the paper's runs.
- **That `vpr` is a better way to train a network.** It trains none. Most of its lead over the paper's form comes from a
  body that suits small images and few labels, as the ladder shows. On a pretrained encoder much less is left of it.
- **That regularisers do not work.** With ten images of a class and one shared output layer, EWC, SI and MAS end where
  plain fine-tuning does. With all images in each task they do what they are known for
  ([permuted-mnist-full](permuted-mnist-full/README.md)).
- **That 95 % on permuted-mnist is knowledge of ten permuted digits.** `vpr` finds the order of the pixels of each task
  and undoes it. The figure without that step stands beside it.
- **That a difference without an interval that excludes 0 is a difference.** Ten seeds cannot tell one point apart.
"""


def story(
    recorded: Recorded, judged: Sequence[JudgedClaim], table: Sequence[str], details: str, prefix: str, drawn: bool
) -> str:
    """The page.

    Args:
        recorded: by folder, what is recorded in it.
        judged: the paper's claims.
        table: that of the methods `SHOWN`.
        details: leads to the page of all tables.
        prefix: leads to the folders of results.
        drawn: whether the page is one of the site, which draws the ladder.
    """
    parts = [
        QUESTION.replace("DETAILS", details),
        "## What came out\n",
        *table,
        *filter(None, (_aligned(recorded), _labels(recorded), _features(recorded))),
        "## What each change is worth\n",
        *_ladder(recorded, drawn),
        "## What the paper claims\n",
        f"VPR is `vpr-paper` here. {claims_summary(judged)} [All {len(judged)} claims]({details}#what-the-paper-claims-"
        "what-we-measured) have a row with two verdicts, on the sign and on the size, and "
        "[the paper, figure by figure](../docs/paper.md) shows the rest.\n",
        AGAINST,
    ]
    return FOLDER.sub(rf"]({prefix}\1/README.md)", "\n".join(parts))


def _group(recorded: Recorded, folder: str, label: str) -> Group | None:
    return next((group for group in recorded.get(folder, []) if group.label == label), None)


def _aligned(recorded: Recorded) -> str:
    """The two numbers of permuted-mnist, side by side."""
    with_it = _group(recorded, "permuted-mnist", "vpr")
    without = next(iter(recorded.get("permuted-mnist-not-aligned", [])), None)
    if not with_it or not without:
        return ""
    return (
        "On permuted-mnist `vpr` finds the order of each task's pixels and so undoes the permutation: "
        f"{_spread(with_it)} avg. Without that step, with prototypes of its own in each task, it has "
        f"{_spread(without)} ([permuted-mnist-not-aligned](permuted-mnist-not-aligned/README.md)).\n"
    )


def _labels(recorded: Recorded) -> str:
    """One hundred labels at once, next to what is published."""
    group = _group(recorded, "split-cifar10-100-labels", "vpr")
    if not group:
        return ""
    summary = group.summaries["avg"]
    low, high = summary.low, summary.high
    interval = f", 95 % interval of the mean {low:.1f} to {high:.1f}" if low is not None else ""
    return (
        f"**One hundred labels.** Taught all ten classes of CIFAR-10 at once, `vpr` reaches {_spread(group)} on the "
        f"test set ({len(group.results)} seeds{interval}). The best published figure without pretraining that we know "
        "of is 43.6 ± 0.9 (Parametric Scattering Networks, on draws of their own) "
        "([split-cifar10-100-labels](split-cifar10-100-labels/README.md)).\n"
    )


def _features(recorded: Recorded) -> str:
    """How `vpr` stands on a pretrained encoder among methods that keep no images."""
    said = []
    for protocol in ("split-cifar10", "split-fashion-mnist"):
        folder = f"encoder-{protocol}"
        ours = _group(recorded, folder, "vpr")
        others = [group for group in recorded.get(folder, []) if group.label not in ("vpr", *STORING)]
        if not ours or not others:
            continue
        best = max(others, key=lambda group: group.summaries["avg"].mean)
        lead = compare_seeds(ours.values["avg"], best.values["avg"])
        within = f" [{lead.low:+.1f}, {lead.high:+.1f}]" if lead and lead.low is not None else ""
        by = f"{lead.difference:+.1f}{within} points to `{best.label}`" if lead else f"next to `{best.label}`"
        said.append(f"on {protocol} {_spread(ours)} avg, {by} ([{folder}]({folder}/README.md))")
    if not said:
        return ""
    return (
        "**On a pretrained encoder** (EfficientNet-Lite2, frozen) closed forms lie close together. `vpr` has "
        f"{'; '.join(said)}, the best of the others that keep neither images nor their features.\n"
    )


STORING = ("replay", "icarl", "logistic", "der", "er-ace", "joint")
"""Methods that keep images or the features of images."""


def _ladder(recorded: Recorded, drawn: bool) -> list[str]:
    """The ladder on split-cifar10 as a table; the site draws it where the comment stands."""
    folder = f"{CLIMBED}split-cifar10"
    if folder not in recorded:
        return [f"{ABSENT}.\n"]
    return [
        "The paper's form and ours share an idea and look nothing alike. Each row changes one thing of the row above, "
        f"on the same seeds ([how to read it](../docs/ladder.md), [counts]({folder}/README.md)). Two things carry the "
        "result: a body made of patches of the first task's images, frozen, and prototypes that are replayed as "
        "samples of mean and variance, without end.\n",
        f"<!-- the ladder of {folder} -->"
        if drawn
        else formats.table_as_markdown(ladder_table(recorded_ladder(recorded[folder]))),
        "",
    ]


def _spread(group: Group) -> str:
    summary = group.summaries["avg"]
    return f"{summary.mean:.1f}" + (f" ± {summary.std:.1f}" if summary.std is not None else "")

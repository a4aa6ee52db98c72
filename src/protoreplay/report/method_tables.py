"""The table of results, and the table of paired differences between methods."""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from protoreplay.analysis.results import METRICS, RECORDED, Group, groups_labelled
from protoreplay.core.errors import UserError, unknown_name
from protoreplay.metrics.answer_metrics import accuracy_by_class, mean_by_class
from protoreplay.metrics.intervals import SeedSummary, compare_seeds, holm_correction
from protoreplay.report.formats import ABSENT, BEST_LEGEND, MARK, Cell, Table

SHOWN = ("avg", "final", "forgetting", "seconds", "kept_numbers", "kept_bytes")
COMPARED = ("avg", "final", "forgetting")
SPREADS = {"std": "standard deviation", "sem": "standard error", "ci": "Student's interval"}
OUTDATED = "\N{DAGGER}"
"""Behind the name of a method with runs that the present code did not make."""
SIGNIFICANCE = 0.05
"""A corrected p below it is marked."""


def results_table(
    groups: Sequence[Group],
    columns: Sequence[str] | None = None,
    spread: str = "std",
    against: str | None = None,
) -> Table:
    """One line a group, means over seeds, accuracies in percent.

    Args:
        groups: the methods, those of a protocol together.
        columns: names of `METRICS`; by default a few for people and all for programs.
        spread: what stands behind a mean for people, one of `SPREADS`.
        against: the label whose difference from the others is tested; by default the best average of each protocol.
    """
    _check_names(columns, METRICS, "column")
    _check_names([spread], SPREADS, "spread")
    shown, told = columns or SHOWN, columns or RECORDED
    needed = dict.fromkeys((*shown, *told))
    tests, (best, second) = _tests(groups, against, needed), _best_values(groups, needed)
    # On features of an encoder the protocol's name says which, so that nobody takes them for results on images.
    encoded = any(result.config.encoder for group in groups for result in group.results)
    several = encoded or len({group.protocol for group in groups}) > 1
    body, records = [], []
    for group in groups:
        reference, corrected = tests[group.protocol, group.label]
        line = [Cell(f"{group.label} {OUTDATED}" if group.outdated else group.label), Cell(str(len(group.results)))]
        for key in shown:
            p = corrected.get(key)
            text = _with_spread(group.summaries[key], key, spread)
            place = group.protocol, key
            line.append(Cell(text, _below(p), group.label in best[place], group.label in second[place]))
        body.append([Cell(group.protocol), *line] if several else line)
        records.append(_results_record(group, told, reference, corrected, best))
    header = ["method", "seeds", *(METRICS[key].heading for key in shown)]
    sentences = [BEST_LEGEND] if any(cell.strong for line in body for cell in line) else []
    if any(corrected for _, corrected in tests.values()):
        sentences = [_spread_note(spread), *sentences, _test_note(groups, tests, against)]
    if outdated := sorted({part for group in groups for part in group.outdated}):
        again = "`bench --redo` repeats the runs"
        sentences.append(f"{OUTDATED}: the source code of the {' and '.join(outdated)} has changed since; {again}.")
    if len({group.protocol for group in groups}) > 1:
        sentences.append("Lines of different protocols cannot be compared.")
    return Table([*["protocol"] * several, *header], body, 1 + several, records, " ".join(sentences), best=True)


Best = dict[tuple[str, str], set[str]]
"""By protocol and metric, the labels with the best mean, as it is shown; none where there is nothing to compare."""


def _best_values(groups: Sequence[Group], keys: Iterable[str]) -> tuple[Best, Best]:
    """The best, and the second of at least three."""
    best: Best = {}
    second: Best = {}
    for protocol, members in itertools.groupby(groups, key=lambda group: group.protocol):
        part = list(members)
        for key in keys:
            sign, digits = -1 if METRICS[key].best == "highest" else 1, METRICS[key].digits
            means = {group.label: sign * round(group.summaries[key].mean, digits) for group in part}
            ranks = sorted({mean for mean in means.values() if not math.isnan(mean)})
            best[protocol, key], second[protocol, key] = (
                {label for label, mean in means.items() if len(ranks) > least and mean == ranks[place]}
                for place, least in ((0, 1), (1, 2))
            )
    return best, second


Tests = dict[tuple[str, str], tuple[Group | None, dict[str, float | None]]]


def _tests(groups: Sequence[Group], against: str | None, keys: Iterable[str]) -> Tests:
    """By protocol and label: what the group is tested against, and the corrected p of each metric."""
    chosen = {group.protocol: group for group in groups_labelled(groups, against)} if against else {}
    tests: Tests = {}
    for protocol, members in itertools.groupby(groups, key=lambda group: group.protocol):
        part = list(members)
        # The groups of a protocol come with the best average first.
        reference = chosen.get(protocol) if against else part[0]
        others = [group for group in part if group is not reference] if reference else []
        tests |= {(protocol, group.label): (reference, {}) for group in part}
        for key in (key for key in keys if METRICS[key].accuracy):
            corrected = holm_correction([_p(group, reference, key) for group in others])
            for group, p in zip(others, corrected, strict=True):
                if p is not None:
                    tests[protocol, group.label][1][key] = p
    return tests


def _p(group: Group, reference: Group | None, key: str) -> float | None:
    if not reference or any(math.isnan(one.summaries[key].mean) for one in (group, reference)):
        return None
    found = compare_seeds(group.values[key], reference.values[key])
    return found.p if found else None


def _spread_note(spread: str) -> str:
    return f"In brackets: {SPREADS[spread]} at 95 %." if spread == "ci" else f"±: {SPREADS[spread]} over seeds."


def _test_note(groups: Sequence[Group], tests: Tests, against: str | None) -> str:
    protocols = {group.protocol for group in groups}
    name = against or (groups[0].label if len(protocols) == 1 else "")
    what = f"{name}{'' if against else ', the best avg'}" if name else "the best avg of its protocol"
    most = max(sum(key[0] == protocol for key in tests) for protocol in protocols) - 1
    many = f", Holm-corrected for {most} comparisons" if most > 1 else ""
    return f"{MARK}: differs from {what}, p < {SIGNIFICANCE} in a paired t test on common seeds{many}."


def _results_record(
    group: Group, columns: Sequence[str], reference: Group | None, corrected: dict[str, float | None], best: Best
) -> dict[str, Any]:
    record: dict[str, Any] = {"protocol": group.protocol, "method": group.label, "seeds": len(group.results)}
    for key in columns:
        summary = group.summaries[key]
        if math.isnan(summary.mean):
            summary = SeedSummary(summary.n, math.nan)
        record[key] = _json_number(summary.mean, key)
        record[f"{key}_best"] = group.label in best[group.protocol, key]
        if METRICS[key].digits == 0:
            continue
        for name in ("std", "sem", "low", "high") if METRICS[key].accuracy else ("std",):
            value = getattr(summary, name)
            record[f"{key}_{name}"] = None if value is None else round(value, 3)
        if METRICS[key].accuracy:
            p = corrected.get(key)
            record[f"{key}_p"] = None if p is None else float(f"{p:.3g}")
    return record | {"p_against": reference.label if reference else None}


def _json_number(mean: float, key: str) -> float | int | None:
    """As JSON has it, which knows no NaN."""
    if math.isnan(mean):
        return None
    return round(mean, 3) if METRICS[key].digits else round(mean)


def _with_spread(summary: SeedSummary, key: str, spread: str) -> str:
    digits = METRICS[key].digits
    if math.isnan(summary.mean):
        return ABSENT
    mean = f"{summary.mean:,.{digits}f}"
    if summary.std is None or not METRICS[key].accuracy:
        return mean
    if spread == "ci":
        return f"{mean} [{summary.low:.{digits}f}, {summary.high:.{digits}f}]"
    return f"{mean} ± {getattr(summary, spread):.{digits}f}"


def classes_table(groups: Sequence[Group]) -> Table:
    """Accuracy on each class after the last task, mean over seeds: one line a method, one column a class."""
    found = {
        (group.protocol, group.label): mean_by_class(
            accuracy_by_class(rows) for result in group.results if (rows := result.answers("confusion"))
        )
        for group in groups
    }
    shown = [group for group in groups if found[group.protocol, group.label]]
    if not shown:
        raise UserError("no run here has confusion.csv: repeat the runs, which are from an older version")
    classes = sorted({label for by_class in found.values() for label in by_class})
    body, records = [], []
    for group in shown:
        by_class = found[group.protocol, group.label]
        texts = [f"{100 * by_class[label]:.1f}" if label in by_class else ABSENT for label in classes]
        body.append([*map(Cell, (group.protocol, group.label, *texts))])
        for label, value in by_class.items():
            names = {"protocol": group.protocol, "method": group.label, "class": label}
            records.append({**names, "accuracy": round(100 * value, 3)})
    header = ["protocol", "method", *map(str, classes)]
    return Table(header, body, 2, records, "Accuracy on each class after the last task in percent, mean over seeds.")


def differences_table(groups: Sequence[Group], labels: Sequence[str], columns: Sequence[str] | None = None) -> Table:
    """The paired difference of each pair of `labels`, with Student's interval and Holm's correction over all lines."""
    shown = columns or COMPARED
    _check_names(shown, {key: metric for key, metric in METRICS.items() if metric.accuracy}, "column")
    if len(set(labels)) < 2:
        raise UserError(f"--compare {','.join(labels)}: give at least two methods, separated by commas")
    found = {
        label: {group.protocol: group for group in groups_labelled(groups, label)} for label in dict.fromkeys(labels)
    }
    records: list[dict[str, Any]] = []
    for (first, ours), (second, theirs) in itertools.combinations(found.items(), 2):
        for protocol, key in itertools.product((name for name in ours if name in theirs), shown):
            tested = compare_seeds(ours[protocol].values[key], theirs[protocol].values[key])
            if tested and not math.isnan(tested.difference):
                names = {"protocol": protocol, "first": first, "second": second, "metric": key}
                records.append({**names, **vars(tested)})
    if not records:
        streams = " and ".join(dict.fromkeys(protocol for part in found.values() for protocol in part))
        raise UserError(
            f"--compare {','.join(labels)}: these methods have no seed on the same stream in common: {streams}"
        )
    for record, p in zip(records, holm_correction([record["p"] for record in records]), strict=True):
        record["p_holm"] = p
    body = []
    for record in records:
        texts = [record["protocol"], record["first"], record["second"], METRICS[record["metric"]].heading]
        texts += [str(record["seeds"]), f"{record['difference']:+.2f}", _interval_text(record), _p_text(record["p"])]
        corrected = Cell(_p_text(record["p_holm"]), mark=_below(record["p_holm"]))
        body.append([*map(Cell, texts), corrected])
    header = ["protocol", "first", "second", "", "seeds", "first - second", "95 % interval", "p", "p (Holm)"]
    note = (
        "Percentage points, first minus second on common seeds; interval and p by the paired t test; "
        f"{MARK}: p < {SIGNIFICANCE} after Holm's correction for the {len(records)} lines."
    )
    return Table(header, body, 4, [_rounded(record) for record in records], note)


def _interval_text(record: dict[str, Any]) -> str:
    return ABSENT if record["low"] is None else f"[{record['low']:+.2f}, {record['high']:+.2f}]"


def _below(p: float | None) -> bool:
    return p is not None and p < SIGNIFICANCE


def _p_text(p: float | None) -> str:
    return ABSENT if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _rounded(record: dict[str, Any]) -> dict[str, Any]:
    return {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in record.items()}


def _check_names(names: Sequence[str] | None, known: dict[str, Any], what: str) -> None:
    for name in names or ():
        if name not in known:
            raise unknown_name(what, name, known)

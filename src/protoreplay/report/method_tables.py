"""The table of results, and the table of paired differences between methods."""

import itertools
from collections.abc import Sequence
from typing import Any

from protoreplay.analysis.results import METRICS, Group, groups_labelled
from protoreplay.core.errors import UserError, unknown_name
from protoreplay.metrics.intervals import SeedSummary, compare_seeds, holm_correction
from protoreplay.report.formats import ABSENT, BEST_LEGEND, MARK, Cell, Table

SHOWN = ("avg", "final", "forgetting", "seconds", "kept_numbers", "kept_bytes")
COMPARED = ("avg", "final", "forgetting")
SPREADS = {"std": "standard deviation", "sem": "standard error", "ci": "Student's interval"}
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
    shown = columns or SHOWN
    tests, best = _tests(groups, against), _best_values(groups)
    # On features of an encoder the protocol's name says which, so that nobody takes them for results on images.
    encoded = any(result.config.encoder for group in groups for result in group.results)
    several = encoded or len({group.protocol for group in groups}) > 1
    body, records = [], []
    for group in groups:
        reference, corrected = tests[group.protocol, group.label]
        line = [Cell(group.label), Cell(str(len(group.results)))]
        for key in shown:
            p = corrected.get(key)
            text = _with_spread(group.summaries[key], key, spread)
            line.append(Cell(text, mark=_below(p), strong=group.label in best[group.protocol, key]))
        body.append([Cell(group.protocol), *line] if several else line)
        records.append(_results_record(group, columns or list(METRICS), reference, corrected, best))
    header = ["method", "seeds", *(METRICS[key].heading for key in shown)]
    sentences = [BEST_LEGEND] if any(cell.strong for line in body for cell in line) else []
    if any(corrected for _, corrected in tests.values()):
        sentences = [_spread_note(spread), *sentences, _test_note(groups, tests, against)]
    if len({group.protocol for group in groups}) > 1:
        sentences.append("Lines of different protocols cannot be compared.")
    return Table([*["protocol"] * several, *header], body, 1 + several, records, " ".join(sentences), best=True)


Best = dict[tuple[str, str], set[str]]
"""By protocol and metric, the labels with the best mean, as it is shown; none where there is nothing to compare."""


def _best_values(groups: Sequence[Group]) -> Best:
    best: Best = {}
    for protocol, members in itertools.groupby(groups, key=lambda group: group.protocol):
        part = list(members)
        for key, metric in METRICS.items():
            means = {group.label: round(group.summaries[key].mean, metric.digits) for group in part}
            end = max(means.values()) if metric.best == "highest" else min(means.values())
            found = {label for label, mean in means.items() if mean == end}
            best[protocol, key] = found if len(found) < len(part) else set()
    return best


Tests = dict[tuple[str, str], tuple[Group | None, dict[str, float | None]]]


def _tests(groups: Sequence[Group], against: str | None) -> Tests:
    """By protocol and label: what the group is tested against, and the corrected p of each metric."""
    chosen = {group.protocol: group for group in groups_labelled(groups, against)} if against else {}
    tests: Tests = {}
    for protocol, members in itertools.groupby(groups, key=lambda group: group.protocol):
        part = list(members)
        # The groups of a protocol come with the best average first.
        reference = chosen.get(protocol) if against else part[0]
        others = [group for group in part if group is not reference] if reference else []
        tests |= {(protocol, group.label): (reference, {}) for group in part}
        for key in (key for key, metric in METRICS.items() if metric.accuracy):
            corrected = holm_correction([_p(group, reference, key) for group in others])
            for group, p in zip(others, corrected, strict=True):
                if p is not None:
                    tests[protocol, group.label][1][key] = p
    return tests


def _p(group: Group, reference: Group | None, key: str) -> float | None:
    found = compare_seeds(group.values[key], reference.values[key]) if reference else None
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
        record[key] = round(summary.mean, 3) if METRICS[key].digits else round(summary.mean)
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


def _with_spread(summary: SeedSummary, key: str, spread: str) -> str:
    digits = METRICS[key].digits
    mean = f"{summary.mean:,.{digits}f}"
    if summary.std is None or not METRICS[key].accuracy:
        return mean
    if spread == "ci":
        return f"{mean} [{summary.low:.{digits}f}, {summary.high:.{digits}f}]"
    return f"{mean} ± {getattr(summary, spread):.{digits}f}"


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
            if tested:
                names = {"protocol": protocol, "first": first, "second": second, "metric": key}
                records.append({**names, **vars(tested)})
    if not records:
        streams = " and ".join(dict.fromkeys(protocol for part in found.values() for protocol in part))
        raise UserError(f"--compare {','.join(labels)}: they share no seed on the same stream: there is {streams}")
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
        "Points of percent, first minus second on common seeds; interval and p by the paired t test; "
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

"""The paper's claims and what the runs say of them: a paragraph of the three that matter, and a table of all."""

from collections.abc import Sequence
from typing import Any

from protoreplay.analysis.claims import PROTOCOL
from protoreplay.analysis.verdicts import JudgedClaim
from protoreplay.metrics.intervals import PairedComparison
from protoreplay.report.formats import ABSENT, Cell, Table

VERDICTS = {
    "holds": "holds",
    "refuted": "is refuted",
    "undecided": "is not decided by these seeds",
    "not measured": "is not measured here",
}


def claims_table(judged: Sequence[JudgedClaim]) -> Table:
    """One line a claim: both verdicts, the paper's figure, ours with its interval, and the p of the sign."""
    body, records = [], []
    for one in judged:
        ours = one.ours
        name = f"{one.claim.text} (decided by {one.decided_by})" if one.decided_by else one.claim.text
        texts = [name, one.sign, one.size, one.claim.paper, ABSENT, ABSENT, ABSENT, ABSENT]
        if ours:
            texts[4:6] = _number(one, ours.difference), _interval(one) or ABSENT
            texts[6] = ABSENT if one.p is None else "< 0.001" if one.p < 0.001 else f"{one.p:.3f}"
            texts[7] = ABSENT if one.claim.counted else str(ours.seeds)
        body.append([Cell(text, strong=column in (1, 2)) for column, text in enumerate(texts)])
        record: dict[str, Any] = {"claim": one.claim.text, "sign": one.sign, "size": one.size, "paper": one.claim.paper}
        numbers = {key: getattr(ours, key, None) for key in ("seeds", "difference", "low", "high")}
        record |= {"paper_number": one.claim.size, "decided_by": one.decided_by, "unit": one.claim.unit}
        records.append({**record, **numbers, "p_holm": one.p})
    header = ["claim", "sign", "size", "paper", "ours", "95 % interval", "p (Holm)", "seeds"]
    return Table(header, body, 4, records, _explanation(judged))


def _explanation(judged: Sequence[JudgedClaim]) -> str:
    tests = sum(one.p is not None for one in judged)
    note = (
        "Sign: whether the difference has the claimed direction, by a paired t test on common seeds at 5 % with Holm's "
        f"correction for the {tests} tests of the table. Size: whether Student's 95 % interval contains the paper's "
        "number. A claim about several quantities holds if all of them are as claimed; the one with the weakest "
        "evidence decides, with a correction for their number. Accuracies are in percentage points. Kept numbers are "
        "counted, not tested. The claim that the network needs no new units holds by construction and is not in the "
        f"table. Only runs on {PROTOCOL} with the paper's tasks, shots and epochs are used. VPR is `vpr-paper`."
    )
    missing = dict.fromkeys(one.claim.command for one in judged if one.sign == "not measured")
    return f"{note} Not measured yet: {'; '.join(f'`{command}`' for command in missing)}." if missing else note


def claims_summary(judged: Sequence[JudgedClaim]) -> str:
    """The claims that matter, a sentence each."""
    return " ".join(_sentence(one) for one in judged if one.claim.matters)


def _sentence(one: JudgedClaim) -> str:
    # A name in capitals stays as it is.
    text = one.claim.text if one.claim.text[1].isupper() else one.claim.text[0].lower() + one.claim.text[1:]
    said = f"The claim that {text}{',' if ',' in text else ''} {VERDICTS[one.sign]}"
    if one.ours is None:
        return f"{said}."
    to = f" to {one.decided_by}" if one.decided_by else ""
    said = f"{said}: the difference{to} is {_number(one, one.ours.difference)} {one.claim.unit}"
    if interval := _interval(one):
        said = f"{said} (95 % interval {interval})"
    if one.size in ("yes", "no"):
        where = "inside" if one.size == "yes" else "outside"
        said = f"{said}, and the paper's number, {one.claim.size:+g}, lies {where} it"
    return f"{said}."


def _interval(one: JudgedClaim) -> str:
    ours: PairedComparison | None = one.ours
    if one.claim.counted or ours is None or ours.low is None or ours.high is None:
        return ""
    return f"[{_number(one, ours.low)}, {_number(one, ours.high)}]"


def _number(one: JudgedClaim, value: float) -> str:
    """A correlation has two digits, percentages say so."""
    if one.claim.unit == "%":
        return f"{value:+.1f} %"
    return f"{value:+.1f}" if one.claim.unit else f"{value:+.2f}"

"""The paper's claims and what the runs say of them, as a table."""

import math
from collections.abc import Sequence

from protoreplay.analysis.claims import CLAIMS, PROTOCOL, Claim, judge
from protoreplay.analysis.results import Group
from protoreplay.metrics.intervals import PairedComparison
from protoreplay.report.formats import ABSENT, Cell, Table


def claims_table(groups: Sequence[Group], claims: Sequence[Claim] = CLAIMS) -> Table:
    """One line a claim: the paper's figure, ours with its interval, and the verdict."""
    body, records = [], []
    for judged in judge(groups, claims):
        claim, ours, verdict = judged.claim, judged.ours, judged.verdict
        unit = " %" if claim.quantity == "fewer numbers" else ""
        estimate = ABSENT if ours is None else f"{ours.difference:+.1f}{unit}"
        interval = ABSENT if ours is None or ours.low is None else f"[{ours.low:+.1f}, {ours.high:+.1f}]"
        seeds = str(ours.seeds) if ours else ABSENT
        texts = [claim.text, verdict, claim.paper, estimate, interval, _range(claim), seeds]
        body.append([Cell(text, strong=column == 1) for column, text in enumerate(texts)])
        numbers = vars(ours) if ours else dict.fromkeys(PairedComparison.__dataclass_fields__)
        records.append({"claim": claim.text, "verdict": verdict, "paper": claim.paper, **numbers})
    header = ["claim", "verdict", "paper", "ours", "95 % interval", "holds if", "seeds"]
    note = (
        "Ours: paired differences on common seeds in points of percent, with Student's interval. A claim holds where "
        "the interval lies inside the range, does not hold where it lies outside, and is undecided in between or with "
        f"one seed. Only {PROTOCOL} with the paper's tasks, shots and epochs counts."
    )
    return Table(header, body, 3, records, note)


def _range(claim: Claim) -> str:
    if claim.missing:
        return claim.missing
    ends = [f"> {claim.low:g}"] * (claim.low > -math.inf) + [f"< {claim.high:g}"] * (claim.high < math.inf)
    return " and ".join(ends)

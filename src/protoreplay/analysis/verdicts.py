"""Holds the paper's claims against runs: is the sign as claimed, and does our interval contain the paper's number?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from protoreplay.analysis.claims import CLAIMS, Claim, gather_evidence
from protoreplay.analysis.motion import MotionRecord
from protoreplay.analysis.results import Group
from protoreplay.metrics.intervals import PairedComparison, holm_correction, paired_t_test

LEVEL = 0.05
Sign = Literal["holds", "refuted", "undecided", "not measured"]
Size = Literal["yes", "no", "undecided", "not measured", "the paper gives no number"]


@dataclass(frozen=True)
class JudgedClaim:
    """A claim, what the runs measure of it, and both verdicts.

    Attributes:
        claim: what is claimed.
        ours: what was measured, None where runs lack it; of several quantities the one that speaks least for the claim.
        decided_by: the name of that one.
        p: of the sign, corrected by Holm within the claim and then over the table; None where nothing was tested.
        sign: whether the direction is as claimed.
        size: whether our interval contains the paper's number.
    """

    claim: Claim
    ours: PairedComparison | None
    decided_by: str
    p: float | None
    sign: Sign
    size: Size


def judge_claims(
    groups: Sequence[Group], motion: MotionRecord | None = None, claims: Sequence[Claim] = CLAIMS
) -> list[JudgedClaim]:
    """Hold each claim against runs and motion, with Holm's correction over all of them."""
    evidence = gather_evidence(groups, motion)
    decisions = [_decide(claim, claim.measure(evidence)) for claim in claims]
    corrected = holm_correction([decision.p if decision else None for decision in decisions])
    return [_judged(claim, decision, p) for claim, decision, p in zip(claims, decisions, corrected, strict=True)]


def any_measured(groups: Sequence[Group], motion: MotionRecord | None = None) -> bool:
    """Whether runs or motion say something of any claim."""
    evidence = gather_evidence(groups, motion)
    return any(claim.measure(evidence) for claim in CLAIMS)


@dataclass(frozen=True)
class _Decision:
    """The quantity that decides a claim, by how far it lies inside the range on average, and the p of that."""

    name: str
    values: list[float]
    margin: float
    p: float | None


def _decide(claim: Claim, members: dict[str, list[float]]) -> _Decision | None:
    """The quantity that speaks least for the claim, which holds where all lie in the range.

    It is one that lies outside with the smallest p, or where none lies outside, the one inside with the largest. Holm's
    correction within the claim makes up for the choice.
    """
    found = [
        _Decision(name if len(members) > 1 else "", values, tested.difference, None if claim.counted else tested.p)
        for name, values in members.items()
        for tested in map(paired_t_test, _margins(claim, values))
    ]
    corrected = holm_correction([one.p for one in found])
    order = sorted(range(len(found)), key=lambda place: (_support(found[place]), found[place].margin))
    return replace(found[order[0]], p=corrected[order[0]]) if found else None


def _margins(claim: Claim, values: Sequence[float]) -> list[list[float]]:
    """How far inside each end of the range."""
    ends = [[value - claim.low for value in values]] * (claim.low > -math.inf)
    return [*ends, *[[claim.high - value for value in values]] * (claim.high < math.inf)]


def _support(decision: _Decision) -> float:
    """From -1, surely outside, to 1, surely inside."""
    return math.copysign(1 - (1 if decision.p is None else decision.p), decision.margin)


def _judged(claim: Claim, decision: _Decision | None, p: float | None) -> JudgedClaim:
    size: Size = "the paper gives no number" if claim.size is None else "not measured"
    if decision is None:
        return JudgedClaim(claim, None, "", None, "not measured", size)
    ours = paired_t_test(decision.values)
    if claim.counted:
        ours = PairedComparison(ours.seeds, ours.difference, ours.difference, ours.difference)
    sign: Sign = "undecided"
    if claim.counted or (p is not None and p < LEVEL):
        sign = "holds" if decision.margin > 0 else "refuted"
    if claim.size is not None:
        size = "undecided"
        if ours.low is not None and ours.high is not None:
            size = "yes" if ours.low <= claim.size <= ours.high else "no"
    return JudgedClaim(claim, ours, decision.name, p, sign, size)

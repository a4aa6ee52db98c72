import json
import zlib

import pytest

from protoreplay.analysis import claims
from protoreplay.analysis.motion import MotionRecord
from protoreplay.analysis.results import collect
from protoreplay.analysis.verdicts import any_measured, judge_claims
from protoreplay.methods import registry
from protoreplay.report import formats
from protoreplay.report.claims_table import claims_summary, claims_table
from protoreplay.streams import protocols
from tests.report.fakes import fake_run

PAPER = {**claims.PAPER, "epochs": 50, "tau": 1.0, "lr": 0.01}
NINE = {"protocol": "split-cifar10", "known_classes": list(range(2, 11))}


def bench(root, method, averages, settings=PAPER, **config):
    """Nine tasks with the same accuracy after each, or with nine given ones, for each seed."""
    for seed, average in enumerate(averages):
        settled = zlib.crc32(json.dumps([settings, config], sort_keys=True).encode())
        curve = average if isinstance(average, list) else [average] * 9
        fake_run(root / f"{method}-{settled}-{seed}", method, seed, curve, settings, **{**NINE, **config})


def judged(root, motion=None, chosen=claims.CLAIMS):
    return {one.claim.text: one for one in judge_claims(collect(root)[0], motion, chosen)}


def the(found, start):
    (one,) = [one for text, one in found.items() if text.startswith(start)]
    return one


def test_the_sign_and_the_size_are_judged_apart(tmp_path):
    bench(tmp_path, "vpr-paper", [40, 42, 44, 46, 48])
    bench(tmp_path, "vpr-paper", [30, 33, 35, 36, 38], {**PAPER, "weighted": False})
    bench(tmp_path, "vpr-paper", [41, 41, 45, 45, 48], {**PAPER, "replay_order": "backward"})
    bench(tmp_path, "vpr-paper", [45, 48, 49, 52, 53], {**PAPER, "dim": 10})
    bench(tmp_path, "l2", [38, 39, 42, 43, 46], {"epochs": 50})
    bench(tmp_path, "sgd", [10, 11, 10, 11, 10], {"epochs": 50})
    bench(tmp_path, "mas", [15, 16, 17, 16, 15], {"epochs": 50})
    found = judged(tmp_path)
    no_number = "the paper gives no number"
    expected = {
        "VPR is ahead of L2 on average": ("holds", "yes", 2.4),
        "Unweighted distance": ("holds", "no", -9.6),
        "Replay backward": ("undecided", "yes", 0.0),
        "Dimension 10 (": ("refuted", no_number, 5.4),
        "Dimension 1000": ("not measured", "not measured", None),
        "sgd falls to chance": ("holds", no_number, 0.4),
        "mas falls to chance": ("refuted", no_number, 5.8),
        "icarl falls to chance": ("not measured", no_number, None),
        "Classes that look alike": ("not measured", "not measured", None),
    }
    for start, (sign, size, difference) in expected.items():
        one = the(found, start)
        assert (one.sign, one.size) == (sign, size), start
        ours = None if one.ours is None else round(one.ours.difference, 9) + 0.0
        assert ours == difference, start


def test_the_headline_is_decided_by_the_method_that_is_ahead(tmp_path):
    bench(tmp_path, "vpr-paper", [30, 31, 32, 31])
    for name in claims.COMPARED:
        bench(tmp_path, name, [34, 36, 36, 35] if name == "icarl" else [20, 22, 21, 20], {"epochs": 50})
    headline = next(iter(judged(tmp_path).values()))
    assert headline.claim.text.startswith("VPR has the highest average accuracy")
    assert (headline.sign, headline.decided_by) == ("refuted", "icarl")
    assert headline.ours.difference == pytest.approx(-4.25)
    assert the(judged(tmp_path), "VPR is ahead of L2 on average").sign == "holds"


def test_the_headline_needs_all_compared_methods(tmp_path):
    bench(tmp_path, "vpr-paper", [40, 41, 42])
    for name in claims.COMPARED[1:]:
        bench(tmp_path, name, [20, 22, 23], {"epochs": 50})
    assert next(iter(judged(tmp_path).values())).sign == "not measured"
    bench(tmp_path, claims.COMPARED[0], [20, 22, 23], {"epochs": 50})
    assert next(iter(judged(tmp_path).values())).sign == "holds"


def test_ahead_in_every_task_falls_with_one_task(tmp_path):
    def curves(shift):
        return [[50 + seed * (shift > 0), *[40 + seed] * 7, 30 + shift + seed % 2] for seed in range(6)]

    bench(tmp_path / "a", "vpr-paper", curves(5))
    bench(tmp_path / "a", "l2", [[45, *[30] * 7, 25]] * 6, {"epochs": 50})
    found = the(judged(tmp_path / "a"), "VPR is ahead of L2 in every")
    assert found.sign == "holds"
    bench(tmp_path / "b", "vpr-paper", curves(-9))
    bench(tmp_path / "b", "l2", [[45, *[30] * 7, 25]] * 6, {"epochs": 50})
    found = the(judged(tmp_path / "b"), "VPR is ahead of L2 in every")
    assert (found.sign, found.decided_by) == ("refuted", "task 9")


def claim(name, values, low=0.0, **more):
    return claims.Claim(name, "", lambda evidence: values, "", low, **more)


def test_holm_runs_within_a_claim_and_then_over_the_table():
    # Of (1, 2, 3), t = 2 / (1 / sqrt 3) with 2 degrees of freedom: p = 1 - t / sqrt(t^2 + 2) = 0.0742.
    p = 1 - (12 / 14) ** 0.5
    one, other, constant = [1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [5.0, 5.0, 5.0]
    (alone,) = judge_claims([], claims=[claim("alone", {"": one})])
    assert alone.p == pytest.approx(p)
    (double,) = judge_claims([], claims=[claim("double", {"a": one, "b": other})])
    assert double.p == pytest.approx(2 * p)
    assert double.decided_by == "a"
    # Three claims: the constant has p = 2^-2, so the smallest p of 0.0742 is multiplied by 3, and nothing falls below.
    found = judge_claims([], claims=[claim("x", {"": one}), claim("y", {"": constant}), claim("z", {"": other})])
    assert [round(each.p, 6) for each in found] == [round(value, 6) for value in (3 * p, 0.25, 3 * p)]


def test_what_speaks_against_a_claim_decides_it():
    members = {"far": [9.0, 10.0, 11.0, 10.0], "near": [0.1, -0.2, 0.3, 0.1], "behind": [-3.0, -3.1, -2.9, -3.0]}
    (found,) = judge_claims([], claims=[claim("all", members)])
    assert (found.sign, found.decided_by) == ("refuted", "behind")
    del members["behind"]
    (found,) = judge_claims([], claims=[claim("all", members)])
    assert (found.sign, found.decided_by) == ("undecided", "near")


def test_the_same_means_inside_both_ends():
    within = {"": [0.1, -0.1, 0.2, 0.0, -0.1]}
    for values, sign in ((within, "holds"), ({"": [5.0, 5.1, 4.9, 5.2]}, "refuted"), ({"": [3.0, -3.0]}, "undecided")):
        (found,) = judge_claims([], claims=[claim("same", values, -1, high=1, size=0)])
        assert found.sign == sign


def test_numbers_kept_are_counted_alike(tmp_path):
    bench(tmp_path, "vpr-paper", [40, 41], kept={"network": 212, "prototypes": 8})
    bench(tmp_path, "l2", [30, 31], {"epochs": 50}, kept={"network": 160, "optimizer": 320})
    found = judged(tmp_path)
    both = the(found, "VPR keeps fewer numbers than L2, the optimiser's moments of both")
    neither = the(found, "VPR keeps fewer numbers than L2, the optimiser's moments of neither")
    assert (both.sign, both.size, both.ours.difference) == ("holds", "no", pytest.approx(100 * (1 - 220 / 480)))
    assert (neither.sign, neither.ours.difference) == ("refuted", pytest.approx(100 * (1 - 220 / 160)))
    assert both.p is None


def motion(**changes):
    fields = {
        "protocol": {"name": "split-cifar10", "settings": {"shots": 10}},
        "method": {"name": "vpr-paper", "settings": PAPER},
        "evaluation": "test",
        "known_classes": range(2, 11),
        "encoder": "lite2",
        "outward": {0: 50.0, 1: 60.0, 2: 55.0},
        "correlation": {0: 0.2, 1: 0.3, 2: 0.25},
    }
    return MotionRecord(**{**fields, **changes})


def test_motion_is_judged_where_it_is_recorded():
    found = {one.claim.text: one for one in judge_claims([], motion())}
    assert the(found, "Prototypes move away").sign == "holds"
    assert (the(found, "Classes that look alike").sign, the(found, "Classes that look alike").size) == ("holds", "no")
    assert any_measured([], motion())
    assert not any_measured([], motion(evaluation="validation"))
    text = {"name": "vpr-paper", "settings": {**PAPER, "optimizer": "sgd"}}
    assert not any_measured([], motion(method=text))


def test_our_variants_do_not_stand_for_the_paper(tmp_path):
    variants = [{"fused": True}, {"expectation": "closed-form"}, {"old_prototypes": "kept"}, {"distance": "squared"}]
    for ours in [*variants, {"trunk": "frozen"}, {"optimizer": "sgd"}]:
        bench(tmp_path, "vpr-paper", [70, 71, 73], {**PAPER, **ours})
    bench(tmp_path, "l2", [30, 32, 34], {"epochs": 50})
    assert the(judged(tmp_path), "VPR is ahead of L2 on average").sign == "not measured"
    bench(tmp_path, "vpr-paper", [40, 42, 44])
    assert the(judged(tmp_path), "VPR is ahead of L2 on average").ours.difference == pytest.approx(10)


def test_runs_that_are_not_the_papers_do_not_count(tmp_path):
    for other in ({"protocol": "split-digits"}, {"evaluation": "validation"}, {"known_classes": list(range(1, 10))}):
        bench(tmp_path, "l2", [30, 31, 33], {"epochs": 50}, **other)
    bench(tmp_path, "l2", [30, 31, 33], {"epochs": 1})
    bench(tmp_path, "l2", [80, 81, 83], {"epochs": 50}, encoder={"name": "lite2", "fingerprint": "0123"})
    bench(tmp_path, "vpr-paper", [30, 31, 33], {**PAPER, "weighted": False, "tau": 9.0})
    assert not any_measured(collect(tmp_path)[0])
    bench(tmp_path, "vpr-paper", [40, 42, 44])
    assert the(judged(tmp_path), "Unweighted distance").sign == "not measured"  # its temperature is another one


def test_one_seed_decides_nothing(tmp_path):
    bench(tmp_path, "sgd", [10], {"epochs": 50})
    one = the(judged(tmp_path), "sgd")
    assert (one.sign, one.ours.seeds, one.ours.low) == ("undecided", 1, None)


def test_the_table_has_a_line_for_every_claim_and_says_how_to_measure_the_rest(tmp_path):
    bench(tmp_path, "sgd", [10, 11], {"epochs": 50})
    made = claims_table(judge_claims(collect(tmp_path)[0]))
    assert len(made.body) == len(claims.CLAIMS) == len(json.loads(formats.table_as_json(made)))
    assert len({one.text for one in claims.CLAIMS}) == len(claims.CLAIMS)
    assert made.body[0][0].text.startswith("VPR has the highest average accuracy")
    assert "`protoreplay ablate split-cifar10 --methods vpr-paper" in made.note
    assert "protoreplay analyze KEPT -o RUNS" in made.note


def test_the_summary_says_the_three_that_matter(tmp_path):
    bench(tmp_path, "vpr-paper", [30, 31, 32, 31])
    for name in claims.COMPARED:
        bench(tmp_path, name, [34, 36, 36, 35] if name == "icarl" else [28, 28, 30, 28], {"epochs": 50})
    assert claims_summary(list(judged(tmp_path).values())) == (
        "The claim that VPR has the highest average accuracy of all compared methods is refuted: the difference to "
        "icarl is -4.2 points (95 % interval [-5.0, -3.5]). The claim that VPR is ahead of L2 on average over the nine "
        "tasks holds: the difference is +2.5 points (95 % interval [+1.6, +3.4]), and the paper's number, +2.5, lies "
        "inside it. The claim that prototypes without variance are much worse, here by over 1.3 points, is not "
        "measured here."
    )


def test_runs_in_several_folders_count_once(tmp_path):
    bench(tmp_path / "a", "vpr-paper", [40, 42, 44])
    bench(tmp_path / "b", "vpr-paper", [40, 42, 44])
    bench(tmp_path / "b", "l2", [30, 33, 34], {"epochs": 50})
    groups, unfinished = collect(tmp_path / "a", tmp_path / "b")
    assert [(group.label, len(group.results)) for group in groups] == [("vpr-paper", 3), ("l2", 3)]
    assert unfinished == 0


def test_every_claim_is_about_what_the_library_has():
    protocol = protocols.get_protocol(claims.PROTOCOL)
    for one in claims.CLAIMS:
        fields = registry.configure("vpr-paper", protocol, dict(one.change)).model_dump()
        assert one.change.items() <= fields.items()
    for name in claims.COMPARED:
        registry.get_method(name)
    settings = dict(registry.configure("vpr-paper", protocol, {}))
    assert {**claims.PAPER, "epochs": claims.PUBLISHED["epochs"]}.items() <= settings.items()
    assert protocol.settings({}).shots == claims.PUBLISHED["shots"]

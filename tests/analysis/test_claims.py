import json
import zlib

import pytest

from protoreplay.analysis import claims
from protoreplay.analysis.results import collect
from protoreplay.methods import registry
from protoreplay.report import formats
from protoreplay.report.claims_table import claims_table
from protoreplay.streams import protocols
from tests.report.fakes import fake_run

PAPER = {**claims.PAPER, "epochs": 50, "tau": 1.0}
NINE = {"protocol": "split-cifar10", "known_classes": list(range(2, 11))}


def bench(root, method, averages, settings=PAPER, **config):
    """Nine tasks with the same accuracy after each, one value a seed."""
    for seed, average in enumerate(averages):
        settled = zlib.crc32(json.dumps([settings, config], sort_keys=True).encode())
        name = f"{method}-{settled}-{seed}"
        fake_run(root / name, method, seed, [average] * 9, settings, **{**NINE, **config})


def verdicts(root):
    return {record["claim"]: record for record in claims_table(collect(root)[0]).records}


def test_a_claim_holds_does_not_hold_or_is_undecided(tmp_path):
    bench(tmp_path, "vpr-paper", [40, 42, 44, 46], kept=50)
    bench(tmp_path, "vpr-paper", [30, 33, 35, 36], {**PAPER, "weighted": False})
    bench(tmp_path, "vpr-paper", [41, 41, 45, 45], {**PAPER, "replay_order": "backward"})
    bench(tmp_path, "vpr-paper", [45, 48, 49, 52], {**PAPER, "dim": 10})
    bench(tmp_path, "vpr-paper", [40, 42, 44, 46], {**PAPER, "samples": 100})
    bench(tmp_path, "l2", [35, 37, 38, 42], {"epochs": 50}, kept=95)
    bench(tmp_path, "sgd", [10, 11, 10, 11], {"epochs": 50})
    bench(tmp_path, "mas", [15, 16, 17, 16], {"epochs": 50})
    found = verdicts(tmp_path)
    expected = {
        "VPR is ahead of L2": ("holds", 5.0),
        "sgd falls to chance": ("holds", 0.5),
        "mas falls to chance": ("does not hold", 6.0),
        "icarl falls to chance": ("not measured", None),
        "VPR keeps fewer numbers than L2": ("holds", 45.0),
        "Unweighted distance": ("holds", -9.5),
        "Replay from the latest task backward": ("undecided", 0.0),
        "Replay of the latest task only": ("not measured", None),
        "Z = 100": ("holds", 0.0),
        "Dimension 10 is worse": ("does not hold", 5.5),
        "Visual similarity": ("not measured", None),
    }
    for text, (verdict, difference) in expected.items():
        (record,) = [record for claim, record in found.items() if claim.startswith(text)]
        assert record["verdict"] == verdict, text
        assert record["difference"] == (difference if difference is None else pytest.approx(difference)), text


def test_our_variants_do_not_stand_for_the_paper(tmp_path):
    for ours in ({"fused": True}, {"expectation": "closed-form"}, {"old_prototypes": "kept"}, {"distance": "squared"}):
        bench(tmp_path, "vpr-paper", [70, 71, 73], {**PAPER, **ours})
    bench(tmp_path, "vpr-paper", [40, 42, 44])
    bench(tmp_path, "l2", [30, 32, 34], {"epochs": 50})
    ahead = next(record for claim, record in verdicts(tmp_path).items() if claim.startswith("VPR is ahead of L2"))
    assert ahead["difference"] == pytest.approx(10)


def test_runs_that_are_not_the_papers_do_not_count(tmp_path):
    bench(tmp_path, "vpr-paper", [40, 42, 44])
    for other in ({"protocol": "split-digits"}, {"evaluation": "validation"}, {"known_classes": list(range(1, 10))}):
        bench(tmp_path, "l2", [30, 31, 33], {"epochs": 50}, **other)
    bench(tmp_path, "l2", [30, 31, 33], {"epochs": 1})
    bench(tmp_path, "vpr-paper", [30, 31, 33], {**PAPER, "weighted": False, "tau": 9.0})
    assert not claims.any_measured(collect(tmp_path)[0])
    assert {record["verdict"] for record in verdicts(tmp_path).values()} == {"not measured"}


def test_one_seed_decides_nothing(tmp_path):
    bench(tmp_path, "sgd", [10], {"epochs": 50})
    (record,) = [r for r in verdicts(tmp_path).values() if r["claim"].startswith("sgd")]
    assert (record["verdict"], record["seeds"], record["low"]) == ("undecided", 1, None)


def test_the_table_has_a_line_for_every_claim(tmp_path):
    bench(tmp_path, "sgd", [10, 11], {"epochs": 50})
    made = claims_table(collect(tmp_path)[0])
    assert len(made.body) == len(claims.CLAIMS) == len(json.loads(formats.table_as_json(made)))
    assert len({claim.text for claim in claims.CLAIMS}) == len(claims.CLAIMS)


def test_every_claim_is_about_what_the_library_has():
    protocol = protocols.get_protocol(claims.PROTOCOL)
    for claim in claims.CLAIMS:
        fields = registry.configure(claim.first, protocol, dict(claim.change)).model_dump()
        assert claim.change.items() <= fields.items()
        if claim.second:
            registry.get_method(claim.second)
    settings = registry.configure("vpr-paper", protocol, {}).model_dump()
    assert {**claims.PAPER, "epochs": claims.PUBLISHED["epochs"]}.items() <= settings.items()
    assert protocol.settings({}).shots == claims.PUBLISHED["shots"]

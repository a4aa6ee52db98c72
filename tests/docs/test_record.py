import json
import shutil

import pytest
import record


def test_a_folder_of_runs_is_recorded(runs, tmp_path):
    record.record(runs, tmp_path / "results/small", "protoreplay bench ...")
    rows = json.loads((tmp_path / "results/small/table.json").read_text())
    assert [row["method"] for row in rows] == ["good", "bad"]
    needed = {"protocol", "method", "seeds", "avg", "avg_std", "final", "final_std", "kept_numbers"}
    assert all(needed <= row.keys() for row in rows)
    counts = (tmp_path / "results/small/counts.csv").read_text().splitlines()
    assert counts[0] == "method,seed,trained,tested,n,correct"
    assert counts[1:4] == ["good,0,1,1,100,80", "good,0,2,1,100,70", "good,0,2,2,100,70"]
    assert "| method | seeds |" in (tmp_path / "results/small/README.md").read_text()


def test_runs_of_one_method_take_its_place_and_the_others_stay(runs, tmp_path):
    target = tmp_path / "results/small"
    record.record(runs, target, "protoreplay bench ...")
    before = (target / "counts.csv").read_text().splitlines()
    shutil.rmtree(runs / "bad")
    record.record(runs, target, "protoreplay bench --methods good", onto=True)
    assert sorted((target / "counts.csv").read_text().splitlines()) == sorted(before)
    assert "bench ...\nprotoreplay bench --methods good\n```" in (target / "README.md").read_text()


def test_seeds_add_up_over_several_sittings(runs, tmp_path):
    target = tmp_path / "results/small"
    record.record(runs, target, "protoreplay bench --seeds 0-1")
    before = (target / "counts.csv").read_text().splitlines()
    later = tmp_path / "later"
    for folder in sorted(runs.glob("good/*")):
        config = json.loads((folder / "config.json").read_text())
        copy = shutil.copytree(folder, later / "good" / f"seed{config['seed'] + 100}")
        (copy / "config.json").write_text(json.dumps(config | {"seed": config["seed"] + 100}))
        wrong = [line.rpartition(",")[0] + ",0" for line in (copy / "counts.csv").read_text().splitlines()[1:]]
        (copy / "counts.csv").write_text("\n".join(["trained,tested,n,correct", *wrong, ""]))
    average = json.loads((target / "table.json").read_text())[0]["avg"]
    record.record(later, target, "protoreplay bench --seeds 100-101", onto=True)
    after = (target / "counts.csv").read_text().splitlines()
    added = [line for line in before if line.startswith("good,")]
    assert set(before) < set(after)
    assert len(after) == len(before) + len(added)
    assert "| good | 6 |" in (target / "README.md").read_text()
    good = next(row for row in json.loads((target / "table.json").read_text()) if row["method"] == "good")
    assert good["avg"] == pytest.approx(average / 2, abs=0.01)  # of all six

import json

import pytest
from pydantic import ValidationError

from protoreplay.core.errors import UserError
from protoreplay.experiments.run_config import RunConfig
from protoreplay.experiments.run_folder import RunFolder, find_run_folders
from protoreplay.metrics.accuracy import Count

SAID = {
    "protocol": {"name": "split-digits", "settings": {"shots": 10, "first_shots": "same"}},
    "method": {"name": "sgd", "settings": {"encoder": "conv-small", "lr": 0.00001}},
    "seed": 3,
    "evaluation": "test",
    "known_classes": [2, 3],
    "versions": {"protoreplay": "0.1.0", "device": "cpu", "processor": "AVX2"},
}
ALL = [Count(1, 1, 10, 9), Count(2, 1, 10, 5), Count(2, 2, 10, 8)]


def begun(path, said=SAID):
    folder = RunFolder(path)
    with folder.locked():
        folder.start(RunConfig(**said), [])
    return folder


def test_a_config_is_written_as_it_is_read(tmp_path):
    folder = begun(tmp_path)
    assert (tmp_path / "config.json").read_text() == json.dumps(SAID, indent=2) + "\n"
    config = folder.config()
    assert (config.protocol.name, config.method.settings["lr"], config.seed, config.tasks) == (
        "split-digits",
        1e-5,
        3,
        2,
    )
    assert config.without_seed() == {key: SAID[key] for key in SAID if key not in ("seed", "versions")}
    with pytest.raises(ValidationError, match="frozen"):
        config.seed = 4


def test_what_other_versions_wrote_is_read(tmp_path):
    begun(tmp_path)
    older = {**SAID, "versions": {"protoreplay": "0.0.1"}, "notes": "from another version"}
    (tmp_path / "config.json").write_text(json.dumps(older))
    config = RunFolder(tmp_path).config()
    assert config.versions == {"protoreplay": "0.0.1", "device": "cpu"}
    RunFolder(tmp_path).refuse_other_run(RunConfig(**SAID))


@pytest.mark.parametrize(
    "change", [{"seed": "first"}, {"evaluation": "train"}, {"method": "sgd"}, {"known_classes": 2}, {"versions": None}]
)
def test_what_is_no_config_is_refused(tmp_path, change):
    begun(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(SAID | change))
    with pytest.raises(UserError, match=r"config\.json is not the configuration of a run"):
        RunFolder(tmp_path).config()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 4}, "holds a run with seed=3, not 4: choose another --out"),
        ({"evaluation": "validation"}, "holds a run with evaluation=test, not validation"),
        (
            {"method": {"name": "sgd", "settings": {"encoder": "lenet"}}},
            "method.settings.encoder=conv-small, not lenet",
        ),
    ],
)
def test_another_run_is_refused_by_what_is_different(tmp_path, change, message):
    folder = begun(tmp_path)
    with pytest.raises(UserError, match=message):
        folder.refuse_other_run(RunConfig(**SAID | change))


def test_a_run_is_finished_when_all_tasks_are_tested_after_each(tmp_path):
    assert not RunFolder(tmp_path / "none").finished()
    folder = begun(tmp_path)
    assert folder.finished_run() is None
    folder.write_counts(ALL[:-1])
    assert not folder.finished()
    folder.write_counts([*ALL[:-1], Count(0, 1, 10, 1), Count(1, 2, 10, 1)])  # tested ahead: still one missing
    assert not folder.finished()
    folder.write_counts([Count(0, 1, 10, 1), *ALL])
    assert folder.finished_run() == (folder.config(), [Count(0, 1, 10, 1), *ALL])


def test_all_folders_below_one_are_found_by_path(tmp_path):
    for name in ("b/seed-1", "a", "b/seed-0"):
        begun(tmp_path / name)
    (tmp_path / "other").mkdir()
    assert [folder.path.relative_to(tmp_path).as_posix() for folder in find_run_folders(tmp_path)] == [
        "a",
        "b/seed-0",
        "b/seed-1",
    ]
    assert find_run_folders(tmp_path / "other") == []
    with pytest.raises(UserError, match="missing is not a folder"):
        find_run_folders(tmp_path / "missing")


DEEP = "[" * 100_000
GOOD_EVENT = {"task": 1, "learn_seconds": 0.5, "test_seconds": 0.1, "kept": [{"name": "a", "numbers": 1, "bytes": 4}]}


@pytest.mark.parametrize(
    "line",
    [
        DEEP,
        "[1]",
        "{}",
        json.dumps(GOOD_EVENT | {"task": "1"}),
        json.dumps(GOOD_EVENT | {"learn_seconds": float("nan")}),
        json.dumps(GOOD_EVENT | {"kept": [{"name": "a\x1b", "numbers": 1, "bytes": 1}]}),
    ],
    ids=["deep", "list", "nothing", "text", "not finite", "control character"],
)
def test_events_that_nobody_wrote_are_refused_in_one_line(tmp_path, line):
    folder = begun(tmp_path)
    folder.append_events([GOOD_EVENT])
    assert folder.events() == [GOOD_EVENT]
    (tmp_path / "events.jsonl").write_text(line + "\n")
    with pytest.raises(UserError, match=r"events\.jsonl is not the events of a run$"):
        folder.events()


@pytest.mark.parametrize(
    "text", [DEEP, "5", '[{"task": 1}]', '[{"task": "x", "classes": [], "train": [], "sha256": ""}]']
)
def test_a_draw_that_nobody_wrote_is_refused_in_one_line(tmp_path, text):
    folder = begun(tmp_path)
    (tmp_path / "shots.json").write_text(text)
    with pytest.raises(UserError, match=r"shots\.json is not the draw of a run$"):
        folder.shots()


@pytest.mark.parametrize("row", ["1,1,10,11", "1,1,0,0", "1,1,-5,-6", "1,0,10,1", "1,1,10," + "9" * 5000, "1,1,ten,1"])
def test_counts_that_nobody_counted_are_refused_in_one_line(tmp_path, row):
    folder = begun(tmp_path)
    (tmp_path / "counts.csv").write_text(f"trained,tested,n,correct\n{row}\n")
    with pytest.raises(UserError, match=r"counts\.csv is not a table of trained,tested,n,correct$"):
        folder.counts()


@pytest.mark.parametrize("text", [DEEP, json.dumps(SAID | {"protocol": {"name": "a\x1b[2J", "settings": {}}})])
def test_a_config_that_is_deep_or_moves_the_cursor_is_refused(tmp_path, text):
    begun(tmp_path)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UserError, match=r"config\.json is not the configuration of a run$"):
        RunFolder(tmp_path).config()

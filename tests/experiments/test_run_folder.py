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

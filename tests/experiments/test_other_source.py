"""Runs that were finished by other source than the present one."""

import json

import pytest
from typer.testing import CliRunner

from protoreplay.analysis.results import collect
from protoreplay.cli import app
from protoreplay.core.errors import UserError
from protoreplay.experiments.grid import execute_grid
from protoreplay.experiments.grid_queue import run_path
from protoreplay.experiments.run import execute
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.experiments.spec import resolve_grid
from protoreplay.report.formats import table_as_text
from protoreplay.report.method_tables import results_table

WORDS = ["bench", "split-digits", "--methods", "nearest-mean,slda", "--seeds", "1", "--set", "tasks=2"]


@pytest.fixture
def specs():
    return resolve_grid("split-digits", ["nearest-mean", "slda"], [0], {"tasks": 2})


def edit_config(folder, edit):
    path = folder.path / "config.json"
    said = json.loads(path.read_text())
    edit(said)
    path.write_text(json.dumps(said))


def of_other_source(folder):
    edit_config(folder, lambda said: said["code"]["method"].update(digest="0" * 16))


def test_it_is_named_and_done_again_or_kept_by_choice(tmp_path, specs):
    execute_grid(specs, tmp_path)
    folder = RunFolder(run_path(tmp_path, specs[0]))
    config = folder.config()
    assert set(config.code) == {"encoder", "method", "protocol"}
    assert len(config.commit) in (0, 40)
    of_other_source(folder)
    before = folder.contents()
    assert "nearest-mean †" in table_as_text(results_table(collect(tmp_path)[0]))
    run = CliRunner()
    wrong = run.invoke(app, [*WORDS, "--out", str(tmp_path)])
    assert str(wrong.exception) == (
        "the source code of 1 finished run has changed (nearest-mean,tasks=2 seed 0: method): "
        "--redo repeats them, --keep keeps them as they are"
    )
    kept = run.invoke(app, [*WORDS, "--out", str(tmp_path), "--keep"])
    assert kept.exit_code == 0
    assert "nearest-mean †" in kept.output
    assert folder.contents() == before
    redone = run.invoke(app, [*WORDS, "--out", str(tmp_path), "--redo"])
    assert redone.exit_code == 0, redone.output
    assert "†" not in redone.stdout
    assert folder.config() == config
    assert folder.counts() == RunFolder(folder.path).counts()
    assert not folder.redone().path.exists()
    with pytest.raises(UserError, match="exclude each other"):
        run.invoke(app, [*WORDS, "--redo", "--keep"], catch_exceptions=False)


def test_the_old_run_is_there_until_the_new_one_is(tmp_path, specs, monkeypatch):
    monkeypatch.setattr("protoreplay.experiments.run.CHECKPOINT_SECONDS", 0.0)
    spec = resolve_grid("split-digits", ["nearest-mean"], [0], {"tasks": 2})[0]
    execute(spec, tmp_path)
    folder = RunFolder(tmp_path)
    of_other_source(folder)
    before = folder.contents()
    again = type(spec)(**{**vars(spec), "other_source": "redo"})

    def killed(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_checkpoint", killed)
        with pytest.raises(KeyboardInterrupt):
            execute(again, tmp_path)
    assert folder.contents() == before
    assert [len(group.results) for group in collect(tmp_path)[0]] == [1]
    with monkeypatch.context() as patch:
        # To its end, and killed while it takes the place of the old one.
        patch.setattr(RunFolder, "_forget", lambda self: [(self.path / "counts.csv").unlink(), killed()])
        patch.setattr(RunFolder, "start", lambda *args: None)
        with pytest.raises(KeyboardInterrupt):
            execute(again, tmp_path)
    assert not folder.finished()
    execute(spec, tmp_path)
    assert folder.config().other_code(spec.code) == []
    assert RunFolder(tmp_path).finished()


def test_an_older_run_that_lacks_a_setting_is_the_same_run(tmp_path, specs):
    execute_grid(specs, tmp_path)
    for spec in specs:
        edit_config(
            RunFolder(run_path(tmp_path, spec)),
            lambda said: [said.pop("code"), said.pop("commit", None), said["method"]["settings"].pop("encoder")],
        )
    execute_grid(specs, tmp_path)
    execute_grid(resolve_grid("split-digits", ["nearest-mean"], [1], {"tasks": 2}), tmp_path)
    assert sorted((group.label, len(group.results)) for group in collect(tmp_path)[0]) == [
        ("nearest-mean", 2),
        ("slda", 1),
    ]
    with pytest.raises(UserError, match=r"method\.settings\.encoder=conv-small, not lenet"):
        execute_grid([type(s)(**{**vars(s), "variant": specs[1].variant}) for s in _other_encoder()], tmp_path)


def _other_encoder():
    return resolve_grid("split-digits", ["slda"], [0], {"tasks": 2, "encoder": "lenet"})

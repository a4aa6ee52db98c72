"""Runs with `--encoder`: another run than without, the same wherever and however often it is done."""

import json
from functools import partial

import pytest
from typer.testing import CliRunner

from protoreplay.analysis.results import collect
from protoreplay.cli import app
from protoreplay.core.errors import UserError
from protoreplay.encoders import frozen
from protoreplay.experiments.grid import execute_grid
from protoreplay.experiments.ray_cluster import Cluster
from protoreplay.experiments.run import execute
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.experiments.run_progress import RunProgress
from protoreplay.experiments.spec import RunSpec, resolve, resolve_grid
from protoreplay.experiments.workers import in_workers
from protoreplay.testing import check_method
from tests.experiments.grids import Bench, results

SMALL = {"tasks": 3, "shots": 3, "test_images": 5}


def test_without_an_encoder_the_run_is_called_and_written_as_before(tmp_path):
    spec = resolve("split-digits", "nearest-mean", 0, SMALL)
    assert spec.variant == "nearest-mean,shots=3,tasks=3,test_images=5"
    execute(spec, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert list(config) == ["protocol", "method", "seed", "evaluation", "known_classes", "versions", "commit", "code"]
    sgd = resolve("split-digits", "sgd", 0, {}).method_settings.model_dump(mode="json")
    assert "head" not in sgd


def test_another_encoder_is_another_run_and_is_never_tested_against(tmp_path):
    encoders = ("", "pixels", "random")
    specs = [
        spec
        for encoder in encoders
        for spec in resolve_grid("split-digits", ["nearest-mean", "slda"], [0], SMALL, encoder=encoder)
    ]
    execute_grid(specs, tmp_path)
    groups, _ = collect(tmp_path)
    assert {group.protocol for group in groups} == {
        "split-digits",
        "split-digits on pixels",
        "split-digits on random",
    }
    fingerprints = {group.results[0].config.encoder for group in groups} - {None}
    assert len({identity.fingerprint for identity in fingerprints}) == 2
    with pytest.raises(UserError, match="encoder"):
        execute(specs[2], tmp_path / specs[0].variant / "seed-0")


class StopError(Exception):
    pass


class StopsAfter(RunProgress):
    def task(self, position, accuracy, seconds):
        if position == 2:
            raise StopError


def test_wherever_it_is_done_and_whenever_it_is_killed_it_is_the_same_run(tmp_path, monkeypatch):
    monkeypatch.setattr("protoreplay.experiments.run.CHECKPOINT_SECONDS", 0.0)
    (tmp_path / "mine.py").write_text(
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def __init__(self, shape):\n        super().__init__()\n"
        "        self.layer = torch.nn.Linear(64, 9)\n\n    def forward(self, images):\n"
        "        return self.layer(images.flatten(1) / 255.0).relu()\n"
    )
    net, settings = f"{tmp_path / 'mine.py'}:Net", {**SMALL, "epochs": 2}
    specs = resolve_grid("split-digits", ["vpr", "replay"], [0], settings, encoder=net)
    execute_grid(specs, tmp_path / "whole")
    with pytest.raises(StopError):
        execute(specs[1], tmp_path / "cut" / specs[1].variant / "seed-0", StopsAfter())
    execute_grid(specs, tmp_path / "cut")
    execute_grid(specs, tmp_path / "jobs", engine=partial(in_workers, jobs=2))
    execute_grid(specs, tmp_path / "ray", engine=Cluster(None, 1, 1.0, 0.0))

    def written(place):
        folders = [RunFolder(tmp_path / place / spec.variant / "seed-0").contents() for spec in specs]
        return [{name: folder[name] for name in ("config.json", "shots.json", "counts.csv")} for folder in folders]

    assert written("cut") == written("jobs") == written("ray") == written("whole")


def test_features_that_are_kept_are_not_made_again(tmp_path, monkeypatch):
    spec = resolve("split-digits", "nearest-mean", 5, SMALL, encoder="random")
    first = execute(spec, tmp_path / "one")
    monkeypatch.setattr(frozen.ModuleEncoder, "embed", lambda self, image: pytest.fail("made again"))
    assert execute(RunSpec.from_plain(spec.to_plain()), tmp_path / "two") == first
    listed = CliRunner().invoke(app, ["data", "ls"])
    assert "features of random" in listed.output
    assert "limited to 2 GB" in listed.output


LOGGED = """
import os

import torch


class Net(torch.nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.layer = torch.nn.Linear(64, 9)

    def forward(self, images):
        if images.any():
            with open(os.environ["MADE"], "a") as file:
                file.write(f"{images.sum()}\\n")
        return self.layer(images.flatten(1) / 255.0).relu()
"""


def test_two_commands_at_once_make_features_once(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(LOGGED)
    monkeypatch.setenv("MADE", str(tmp_path / "made"))
    words = ["split-digits", "--methods", "nearest-mean,slda", "--encoder", f"{tmp_path / 'mine.py'}:Net"]
    words += ["--seeds", "2", "--set", "tasks=4"]
    both = [Bench(tmp_path / name, *words) for name in ("one", "two")]
    processes = [bench.start() for bench in both]
    told = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], told
    assert results(both[0].root) == results(both[1].root)
    specs = resolve_grid("split-digits", ["slda"], [0, 1], {"tasks": 4}, encoder=f"{tmp_path / 'mine.py'}:Net")
    streams = [spec.stream() for spec in specs]
    wanted = [
        {tuple(index) for stream in streams for plan in stream.plans for index in getattr(plan, part)[:, None].tolist()}
        for part in ("train", "test")
    ]
    assert len((tmp_path / "made").read_text().splitlines()) == sum(map(len, wanted))


def test_a_network_sees_images_at_its_own_size_unless_another_is_asked_for():
    assert resolve("split-digits", "slda", 0, {}, encoder="lite0").stream_settings.image_size == 128
    assert resolve("split-digits", "slda", 0, {"image_size": 16}, encoder="lite0").stream_settings.image_size == 16
    assert resolve("split-digits", "slda", 0, {}, encoder="pixels").stream_settings.image_size == 8


def test_randumb_keeps_its_other_settings_on_an_encoder(tmp_path):
    spec = resolve("split-digits", "randumb", 0, SMALL, encoder="pixels")
    assert spec.method_settings.expansion == 25_000
    execute(resolve("split-digits", "randumb", 0, {**SMALL, "expansion": 50}, encoder="dictionary"), tmp_path)
    assert RunFolder(tmp_path).finished()


@pytest.mark.parametrize(
    ("method", "settings", "encoder", "why"),
    [
        ("sgd", {"augment_shift": 2}, "pixels", "features cannot be augmented"),
        ("vpr-linear", {"views": 5}, "pixels", "views=5"),
        ("vpr", {"ridge": 1}, "pixels", "unknown setting 'ridge'"),
        ("slda", {"features": "random"}, "pixels", "leave it out with --encoder"),
        ("nearest-mean-random", {}, "pixels", "give nearest-mean"),
        ("sgd", {"head": "mlp"}, "", "give them with --encoder"),
        ("sgd", {}, "lite9@224", "unknown encoder"),
        ("sgd", {}, "pixles", "did you mean pixels"),
    ],
)
def test_what_features_cannot_have_is_refused_in_one_line(method, settings, encoder, why):
    with pytest.raises(UserError, match=why) as raised:
        resolve("split-digits", method, 0, settings, encoder=encoder)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("method", "settings"),
    [("vpr", {}), ("slda", {}), ("icarl", {}), ("vpr-paper", {"dim": 4}), ("replay", {"head": "mlp"})],
)
def test_methods_on_features_keep_the_contract(method, settings):
    check_method(method, settings, features=True)

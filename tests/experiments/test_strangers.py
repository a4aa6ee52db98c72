"""A method, an encoder, a dataset and a protocol that are no part of the package, wherever runs are done."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from protoreplay.analysis.results import collect
from protoreplay.core.errors import UserError
from protoreplay.experiments.grid import RunsFailedError, execute_grid
from protoreplay.experiments.run_folder import find_run_folders
from protoreplay.experiments.spec import resolve, resolve_grid
from protoreplay.experiments.tune import TuningPlan, tune
from protoreplay.experiments.workers import in_workers
from tests.experiments.grids import results

MINE = '''
import torch
from pydantic import Field
from torch import nn

from protoreplay.data.images import Dataset, ImageSet
from protoreplay.methods.base import EncoderSettings
from protoreplay.methods.linear import LinearMethod
from protoreplay.streams.protocols import Protocol, SplitSettings


class TemperedConfig(EncoderSettings):
    """Settings of Tempered."""

    rate: float = Field(0.05, gt=0)
    """Learning rate."""


class Tempered(LinearMethod[TemperedConfig]):
    """Fine-tuning with momentum."""

    Config = TemperedConfig
    summary = "fine-tuning with momentum"
    search = {"rate": (0.01, 0.1)}

    def _learn(self, task, on_step):
        self.fit(task, torch.optim.SGD(self.network.parameters(), lr=self.config.rate, momentum=0.5), on_step)


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride=2)

    def forward(self, x):
        return (self.second(self.first(x).relu()) + self.shortcut(x)).relu()


class SmallResNet(nn.Module):
    """Two residual blocks of stride 2."""

    def __init__(self, shape):
        super().__init__()
        self.blocks = nn.Sequential(Block(shape[0], 8), Block(8, 16))

    def forward(self, images):
        return self.blocks(images / 255.0).mean((2, 3))


def stripes():
    """Stripes of four widths, and noise."""
    draw = torch.Generator().manual_seed(0)

    def images(each):
        labels = torch.arange(4).repeat(each)
        waves = ((torch.arange(8) // (labels[:, None] + 1)) % 2 * 150)[:, None, None, :].expand(-1, 1, 8, 8)
        noise = torch.randint(0, 100, waves.shape, generator=draw)
        return ImageSet((waves + noise).to(torch.uint8), labels, ("a", "b", "c", "d"))

    return Dataset("stripes", images(12), images(6))


SHORT = Protocol("", "stripes, two tasks", "stripes", 4, SplitSettings(image_size=8, shots=4, tasks=2))
NUMBER = 3
'''
SETTINGS = {"epochs": 3, "shots": 4, "tasks": 2}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The file, and its folder as the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("mine.py").write_text(MINE)
    return Path("mine.py")


def test_from_a_file_that_other_processes_do_not_have(mine, tmp_path):
    ray_cluster = pytest.importorskip("protoreplay.experiments.ray_cluster")
    pytest.importorskip("ray", reason="the package ray is not installed")
    given = {**SETTINGS, "encoder": "mine.py:SmallResNet"}
    specs = resolve_grid("split:mine.py:stripes", ["mine.py:Tempered", "sgd"], [0], given)
    execute_grid(specs, tmp_path / "here")
    mine.rename("gone.py")
    # One process each: what has to be there is told to every one alike, and each takes seconds to start.
    execute_grid(specs, tmp_path / "workers", engine=partial(in_workers, jobs=1))
    execute_grid(specs, tmp_path / "ray", engine=ray_cluster.Cluster(None, 1, 1.0, 0.0))
    assert results(tmp_path / "here") == results(tmp_path / "workers") == results(tmp_path / "ray")
    names = {folder.config().method.name for folder in find_run_folders(tmp_path / "here")}
    assert names == {"mine.py:Tempered", "sgd"}
    assert {path.name.partition(",")[0] for path in (tmp_path / "here").iterdir()} == {"Tempered", "sgd"}
    assert {group.label for group in collect(tmp_path / "here")[0]} == {"Tempered", "sgd"}


SESSION = f"""{MINE}

if __name__ == "__main__":
    import sys
    from functools import partial
    from pathlib import Path

    from protoreplay.data.catalog import DATASETS
    from protoreplay.encoders.registry import ENCODERS
    from protoreplay.experiments.grid import execute_grid, in_this_process
    from protoreplay.experiments.spec import resolve_grid
    from protoreplay.experiments.workers import in_workers
    from protoreplay.methods.registry import METHODS
    from protoreplay.streams.protocols import PROTOCOLS

    METHODS.register("tempered", Tempered)
    ENCODERS.register("small-resnet", SmallResNet)
    DATASETS.register("stripes", stripes() if "object" in sys.argv else stripes)
    PROTOCOLS.register("short-stripes", SHORT)
    given = {{"epochs": 2, "encoder": "small-resnet", "rate": "0.1"}}
    specs = resolve_grid("short-stripes", ["tempered"], [0, 1], given)
    execute_grid(specs, Path("here"))
    if "object" in sys.argv:
        from protoreplay.experiments.ray_cluster import Cluster

        execute_grid(specs, Path("elsewhere"), engine=Cluster(None, 1, 1.0, 0.0))
    else:
        execute_grid(specs, Path("elsewhere"), engine=partial(in_workers, jobs=1))
"""


@pytest.mark.parametrize("dataset", ["object", "function"])
def test_registered_in_a_script(tmp_path, dataset):
    """A dataset given as an object goes to a Ray node, one given as a function to a worker."""
    if dataset == "object":
        pytest.importorskip("ray", reason="the package ray is not installed")
    (tmp_path / "script.py").write_text(SESSION)
    done = subprocess.run(
        [sys.executable, "script.py", dataset], cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    here = results(tmp_path / "here")
    assert len([name for name in here if name.endswith("counts.csv")]) == 2
    assert results(tmp_path / "elsewhere") == here


def test_by_the_entry_points_of_an_installed_package(mine, tmp_path, monkeypatch):
    info = tmp_path / "site/strangers-1.0.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "site/strangers.py").write_text(MINE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strangers\nVersion: 1.0\n")
    points = {"method": "tempered = strangers:Tempered", "encoder": "resnet = strangers:SmallResNet"}
    points |= {"dataset": "foreign-stripes = strangers:stripes", "protocol": "short = strangers:SHORT"}
    (info / "entry_points.txt").write_text("".join(f"[protoreplay.{k}s]\n{v}\n" for k, v in points.items()))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    specs = resolve_grid("split:foreign-stripes", ["tempered"], [0, 1], {**SETTINGS, "encoder": "resnet"})
    execute_grid(specs, tmp_path / "here")
    execute_grid(specs, tmp_path / "workers", engine=partial(in_workers, jobs=1))
    assert results(tmp_path / "here") == results(tmp_path / "workers")
    assert resolve("short", "tempered", 0, {}).stream_settings.shots == 4


@pytest.mark.usefixtures("mine")
def test_its_settings_are_set_varied_and_tuned(tmp_path):
    given = {"encoder": "mine.py:SmallResNet", "epochs": "1", "shots": "4"}
    specs = resolve_grid("split:mine.py:stripes", ["mine.py:Tempered"], [0], given, vary={"rate": ["0.1", "0.2"]})
    assert [spec.method_settings.rate for spec in specs] == [0.1, 0.2]
    assert specs[0].variant == "Tempered,encoder=mine.py_SmallResNet,epochs=1,rate=0.1,shots=4"
    found = tune(TuningPlan("split:mine.py:stripes", "mine.py:Tempered", 1, None, given), tmp_path)
    assert {trial.settings["rate"] for trial in found.trials} == {0.01, 0.1}
    with pytest.raises(UserError, match=r"mine\.py:Tempered: rate=-1: input should be greater than 0"):
        resolve("split:mine.py:stripes", "mine.py:Tempered", 0, {"rate": "-1"})


@pytest.mark.usefixtures("mine")
def test_names_are_short_where_that_is_unambiguous(tmp_path):
    Path("sgd.py").write_text("from protoreplay.methods.sgd import SGD as Tempered, SGD as sgd\n")
    specs = resolve_grid("split-digits", ["mine.py:Tempered", "sgd.py:Tempered", "sgd.py:sgd", "sgd"], [0], {})
    assert [spec.variant for spec in specs] == ["mine.py_Tempered", "sgd.py_Tempered", "sgd.py_sgd", "sgd"]
    small = {"tasks": 1, "epochs": 1}
    execute_grid(resolve_grid("split-digits", ["mine.py:Tempered", "sgd.py:Tempered"], [0], small), tmp_path / "runs")
    assert {group.label for group in collect(tmp_path / "runs")[0]} == {"mine.py:Tempered", "sgd.py:Tempered"}


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("protocol", "method", "settings", "message"),
    [
        ("split-digits", "mine.py:Temper", {}, r"unknown name 'Temper' in mine\.py \(did you mean Tempered\?\)"),
        ("split-digits", "mine.py:NUMBER", {}, r"mine\.py:NUMBER is no method: give a class of"),
        ("split-digits", "mine.py:SmallResNet", {}, r"mine\.py:SmallResNet is no method"),
        ("split-digits", "sgd", {"encoder": "mine.py:NUMBER"}, r"mine\.py:NUMBER is not an encoder"),
        ("split:mine.py:NUMBER", "sgd", {}, r"mine\.py:NUMBER is not a dataset"),
        ("split:mine.py:SmallResNet", "sgd", {}, r"dataset mine\.py:SmallResNet cannot be loaded: TypeError"),
        ("split:mine.py:dict", "sgd", {}, r"unknown name 'dict' in mine\.py"),
        ("mine.py:NUMBER", "sgd", {}, r"mine\.py:NUMBER is not a protocol"),
    ],
)
def test_what_is_something_else_is_one_line(protocol, method, settings, message):
    with pytest.raises(UserError, match=message) as error:
        resolve(protocol, method, 0, settings)
    assert "\n" not in str(error.value)


def test_an_error_inside_it_is_a_failed_run_in_one_line(mine, tmp_path):
    mine.write_text(
        MINE + "\n\nclass Broken(Tempered):\n    def _learn(self, task, on_step):\n        self.nothing.here\n"
    )
    specs = resolve_grid("split-digits", ["mine.py:Broken"], [0], {"tasks": 1, "epochs": 1})
    with pytest.raises(RunsFailedError) as info:
        execute_grid(specs, tmp_path / "runs", engine=partial(in_workers, jobs=1))
    (failure,) = info.value.failures
    assert failure.error == "AttributeError: 'Broken' object has no attribute 'nothing'"
    assert "self.nothing.here" in next((tmp_path / "runs").rglob("error.txt")).read_text()

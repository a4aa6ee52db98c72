import subprocess
import sys

import pytest

from protoreplay.core.errors import UserError
from protoreplay.experiments.run import execute
from protoreplay.experiments.run_progress import RunProgress
from protoreplay.experiments.spec import resolve

pytest.importorskip("tensorboard", reason="the package tensorboard is not installed")


class StopError(Exception):
    pass


class StopsInTask2(RunProgress):
    def step(self, position, step, steps, loss):
        if position == 2:
            raise StopError


@pytest.mark.filterwarnings("ignore")  # of the packages that TensorBoard is made of
def test_losses_and_accuracies_are_beside_the_run_each_once(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    spec = resolve("split-digits", "sgd", 0, {"tasks": 3, "epochs": 2})
    with pytest.raises(StopError):
        execute(spec, tmp_path, StopsInTask2(), "tensorboard")
    counts = execute(spec, tmp_path, log="tensorboard")
    assert counts == execute(spec, tmp_path / "without")
    assert not (tmp_path / "without/tensorboard").exists()
    shown = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in shown.Scalars("loss")] == [500, 1000, 1500, 2000, 2500, 3000]
    assert [event.step for event in shown.Scalars("accuracy")] == [1000, 2000, 3000]
    assert shown.Scalars("accuracy")[0].value == pytest.approx(counts[0].correct / counts[0].n)


def test_without_the_package_it_is_one_line_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    with pytest.raises(UserError, match=r"--log tensorboard needs .* pip install 'protoreplay\[tensorboard\]'"):
        execute(resolve("split-digits", "sgd", 0, {"tasks": 1}), tmp_path / "run", log="tensorboard")
    assert not (tmp_path / "run").exists()


def test_off_nothing_is_imported():
    code = "import sys, protoreplay.experiments.run; assert not {'tensorboard', 'ray'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=300).returncode == 0

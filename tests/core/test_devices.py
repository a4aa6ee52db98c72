import pytest
import torch

from protoreplay.core import devices
from protoreplay.core.errors import UserError


@pytest.fixture
def machine(monkeypatch):
    def has(cuda, mps):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return has


@pytest.mark.parametrize(("cuda", "mps", "best"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")])
def test_auto_is_the_fastest_there_is(machine, cuda, mps, best):
    machine(cuda, mps)
    assert devices.pick_device("auto") == best
    assert devices.pick_device("cpu") == "cpu"


def test_what_is_not_there_is_one_line(machine):
    machine(cuda=False, mps=True)
    with pytest.raises(UserError, match=r"--device cuda: PyTorch .* has no such device here; available: mps, cpu"):
        devices.pick_device("cuda")
    with pytest.raises(UserError, match=r"unknown device 'cda' \(did you mean cuda\?\)"):
        devices.pick_device("cda")

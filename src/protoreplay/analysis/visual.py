"""How alike classes look to a network that saw them all: the mean features of a pretrained encoder."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from protoreplay.encoders import pretrained
from protoreplay.streams.stream import Stream

PER_CLASS = 20
BATCH = 16
ENCODER = "lite2"
"""In place of the paper's VGG16, which is `timm:vgg16.tv_in1k` where timm is installed."""


def class_features(stream: Stream, classes: Sequence[int], name: str = ENCODER) -> NDArray[np.float64]:
    """For each class, the mean features, C x D, of its first test images by the encoder called `name`."""
    network, means = pretrained.open_encoder(name), []
    for label in classes:
        position = next(number for number, plan in enumerate(stream.plans, start=1) if label in plan.classes)
        images, labels = stream.test_set(position)
        chosen = images[labels == label][:PER_CLASS].expand(-1, 3, -1, -1).float()
        bigger = functional.interpolate(chosen, size=network.size, mode="bilinear", antialias=True)
        pixels = bigger.round_().clamp_(0, 255).to(torch.uint8).numpy()
        features = [network.embed(pixels[start : start + BATCH]) for start in range(0, len(pixels), BATCH)]
        means.append(np.concatenate(features).mean(0, dtype=np.float64))
    return np.stack(means)

"""What methods on untrained features share: which features, and how they are made."""

from typing import ClassVar, Literal, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn

from protoreplay.core.progress import StepCallback, ignore_steps
from protoreplay.core.rng import generator
from protoreplay.core.settings import Settings
from protoreplay.encoders.dictionary import DictionarySettings, PatchDictionary, written_if_changed
from protoreplay.encoders.fixed import GivenFeatures, RandomFilters, RawPixels, UntrainedTrunk
from protoreplay.encoders.registry import ImageShape
from protoreplay.methods.base import EncoderName, Method, MethodContext
from protoreplay.prototypes.gaussians import ClassMeans
from protoreplay.streams.stream import Task

FeatureName = Literal["pixels", "random", "encoder", "dictionary"]

LARGEST_BATCH = 2**26
"""Numbers of pixels that go through a trunk together."""
PART = 256
"""Images at a time where there are more."""


class FeatureSettings(Settings):
    """Settings of every method that stands on untrained features."""

    features: FeatureName = "pixels"
    """Raw pixels, random convolutions, the untrained encoder, or the dictionary of patches that `vpr` learns from the
    first task's images; random and encoder features have unit length. With `--encoder`, its features are used, and this
    setting and the next ones have no effect."""
    filters: int = Field(800, ge=1)
    """Number of random filters (ours: 800)."""
    encoder: EncoderName = "conv-small"
    """Network of `encoder` features; the protocol prescribes it."""
    dictionary_filters: int = written_if_changed(160, ge=1)
    """Number of filters of `dictionary` features (this and the next four: as in `vpr` on the protocol)."""
    dictionary_patch: int = written_if_changed(6, ge=2)
    """Side length of its patches, in pixels."""
    dictionary_mirror: bool = written_if_changed(True)
    """Whether an image and its mirror image have the same features."""
    dictionary_latent: int = written_if_changed(850, ge=1)
    """Number of features per image."""
    dictionary_field_width: int = written_if_changed(140, ge=1)
    """Maximum number of principal directions of its responses kept per cell."""

    def dictionary(self) -> DictionarySettings:
        """The settings of `dictionary` features."""
        own = {name: getattr(self, f"dictionary_{name}", None) for name in DictionarySettings.model_fields}
        return DictionarySettings(**{name: value for name, value in own.items() if value is not None})


class TrunkFeatureSettings(FeatureSettings):
    """The same for methods that stand on the encoder's untrained trunk where nothing else is asked for."""

    features: FeatureName = "encoder"
    """Raw pixels, random convolutions, the untrained encoder that all methods share, or the dictionary of patches that
    `vpr` learns from the first task's images; random and encoder features have unit length."""


def extractor(config: FeatureSettings, shape: ImageShape, generator: torch.Generator) -> tuple[nn.Module, int]:
    """The features that `config` names, and how many numbers of an image they are."""
    if config.features == "pixels":
        module: nn.Module = RawPixels()
    elif config.features == "random":
        module = RandomFilters(shape, config.filters, generator)
    elif config.features == "dictionary":
        module = PatchDictionary(shape, config.dictionary())
    else:
        module = UntrainedTrunk(config.encoder, shape, generator)
    module.requires_grad_(False)
    return module, module(torch.zeros(1, *shape, dtype=torch.uint8)).shape[1]


F = TypeVar("F", bound=FeatureSettings)


class FixedFeatureMethod(Method[F]):
    """A method on features that nothing trains.

    It carries what makes them, and a mean for every class of every task.

    Attributes:
        keeps_means: whether it does carry means.
        width: of the features.
    """

    frozen = True
    keeps_means: ClassVar[bool] = True

    def __init__(self, config: F, context: MethodContext) -> None:
        super().__init__(config, context)
        body: nn.Module = GivenFeatures()
        self.width = context.image_shape[0]
        if not context.features:
            body, self.width = extractor(config, context.image_shape, self.initial_weights())
        self.features = self.carry("features", body.to(self.device))
        nothing = ClassMeans.none(self.width, self.device)
        self.prototypes = self.carry("prototypes", nothing) if self.keeps_means else nothing

    @property
    def deterministic(self) -> bool:
        """Pixels are the same with every seed, and so are features that are given."""
        return self.context.features or self.config.features == "pixels"

    def _features(self, images: Tensor) -> Tensor:
        """Of images, uint8 N x C x H x W, the features, N x D."""
        # In one go, as ever, unless a trunk's activations would fill the memory: a base session of 84 pixels does.
        parts = images.split(PART if images.numel() > LARGEST_BATCH else max(1, len(images)))
        features: Tensor = (
            self.features(images) if len(parts) == 1 else torch.cat([self.features(part) for part in parts])
        )
        return features

    def learn(self, task: Task, on_step: StepCallback = ignore_steps) -> None:
        """Learn `task`; features that are made of images are made of the first task's."""
        if isinstance(self.features, PatchDictionary) and not self.classes:
            # The random numbers of `vpr` in its first task: of one seed, all have the same dictionary.
            self.features.fit(task.images.to(self.device), generator(self.context.seed, "VPR", "learn", task.position))
        super().learn(task, on_step)

    def by_class(self, task: Task, features: Tensor) -> list[Tensor]:
        """The features of each of the task's classes, N x D each, in the order of `task.classes`."""
        return [features[(task.labels == label).to(self.device)] for label in task.classes]

    def columns(self, labels: Tensor) -> Tensor:
        """Where labels (int64, N) stand among the classes seen (int64, N)."""
        return torch.searchsorted(torch.tensor(self.classes), labels).to(self.device)

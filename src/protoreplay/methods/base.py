"""What every method is: the contract, and how its state and its ledger come from one place."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import torch
from pydantic import AfterValidator, Field
from torch import Tensor

from protoreplay.core.errors import UserError
from protoreplay.core.progress import StepCallback, ignore_steps
from protoreplay.core.rng import borrowed, generator
from protoreplay.core.settings import Settings
from protoreplay.encoders.network import Network
from protoreplay.encoders.registry import ImageShape, trunk
from protoreplay.encoders.trunks import FEATURE_TRUNKS
from protoreplay.methods import state
from protoreplay.methods.augmentation import AugmentationSettings
from protoreplay.methods.replay_memory import BudgetPer
from protoreplay.methods.state import LedgerItem
from protoreplay.streams.stream import Task

BatchClassifier = Callable[[Tensor], Tensor]
"""From one batch of what `Method.embed` gives, N x ..., to probabilities of the classes seen, N x C."""

PREDICT_BATCH = 256

ADAM_RATES = (1e-5, 1e-4, 1e-3, 1e-2)
"""The learning rates that are tried when the settings of a method that trains with Adam are tuned."""


@dataclass(frozen=True)
class MethodContext:
    """What a method is told before it sees an image.

    Attributes:
        image_shape: channels, height, width of the images to come.
        num_classes: labels are below this.
        seed: all that is random is derived from it.
        device: where to compute.
        features: whether what is called images are features of a frozen encoder, float32, D x 1 x 1.
    """

    image_shape: ImageShape
    num_classes: int
    seed: int = 0
    device: str = "cpu"
    features: bool = False

    def no_images(self) -> Tensor:
        """A stack of none of the images to come: uint8, or of features float32."""
        return torch.zeros(0, *self.image_shape, dtype=torch.float32 if self.features else torch.uint8)


class LatentSpace(NamedTuple):
    """The space in which images and prototypes are compared, as it is now.

    Attributes:
        mean: of the prototypes, K x D.
        variance: of each dimension of each prototype, K x D.
        classes: int64, K.
        means: from features as `Method.embed` gave them, N x ..., to the latent means of the images, N x D.
    """

    mean: Tensor
    variance: Tensor
    classes: Tensor
    means: Callable[[Tensor], Tensor]


def _known_trunk(name: str) -> str:
    try:
        trunk(name)
    except UserError as error:
        raise ValueError(str(error)) from None
    return name


EncoderName = Annotated[str, AfterValidator(_known_trunk)]


class EncoderSettings(AugmentationSettings):
    """Settings of every method that trains a network."""

    encoder: EncoderName = "conv-small"
    """Network of the encoder; the protocol prescribes it, so that all methods share it."""
    epochs: int = Field(50, ge=0)
    """Epochs per task (the baselines' script: 50)."""
    batch_size: int = Field(128, ge=2)
    """Maximum batch size (the baselines' script: 128)."""
    # Written down only where it is not the default: a run of before there was a choice is still the same run.
    max_steps: Annotated[int, Field(ge=1)] | Literal["all"] = Field("all", exclude_if=lambda wanted: wanted == "all")
    """Maximum number of steps per task; it ends a task of many images before all its `epochs` (ours)."""
    head: Literal["linear", "mlp"] = Field("linear", exclude_if=lambda wanted: wanted == "linear")
    """Head trained on the features of `--encoder`: a linear layer, optionally after a hidden layer of 256 units
    (ours)."""


class AdamSettings(EncoderSettings):
    """Settings of methods that train with Adam."""

    lr: float = Field(1e-3, gt=0)
    """Adam's learning rate (the baselines' script on split-cifar10: 1e-3)."""


class MemorySettings(AdamSettings):
    """Settings of methods that keep images."""

    budget: int = Field(10, ge=0)
    """Number of images in the replay memory (the paper keeps 10 on CIFAR-10)."""
    budget_per: BudgetPer = "run"
    """Whether all classes share the budget, or each class of each task has its own."""


C = TypeVar("C", bound=Settings)
V = TypeVar("V")


class Method(ABC, Generic[C]):
    """A learner of a stream of tasks.

    A method of one's own says what it carries, once, in `__init__` (`self.means = self.carry("means", ...)`), and
    implements `_learn` and `_classifier`; one whose features never change sets `frozen` and implements `_features`.
    Saving, restoring and the ledger follow from what is carried, and the classes seen are kept here.

    Attributes:
        Config: its settings.
        summary: one line.
        search: the values that are tried when settings are tuned, by setting.
        on_features: the class that stands in for it where `--encoder` gives it features, if not itself.
        frozen: whether `_features` gives an image the same from the first task on, so that it is computed once.
        classes: the labels seen so far, ascending; within `_learn` with those of the task.
        old_classes: within `_learn`, the labels seen before the task.
    """

    Config: ClassVar[type[Settings]]
    summary: ClassVar[str]
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    on_features: ClassVar["type[Method[Any]] | None"] = None
    frozen: ClassVar[bool] = False

    def __init__(self, config: C, context: MethodContext) -> None:
        self.config = config
        self.context = context
        self.device = torch.device(context.device)
        self.classes: tuple[int, ...] = ()
        self.old_classes: tuple[int, ...] = ()
        self._carried: dict[str, Any] = {}

    def carry(self, name: str, value: V, element: Any = None) -> V:
        """Declare what is carried from task to task: write `self.NAME = self.carry("NAME", value)`.

        Args:
            name: of the attribute, and of the ledger item.
            value: at the start, of a kind that `protoreplay.methods.state` knows.
            element: of a list, an element like those to come.
        """
        self._carried[name] = element
        return value

    @abstractmethod
    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Learn `task`, whose classes are in `self.classes` already."""

    @abstractmethod
    def _classifier(self) -> BatchClassifier:
        """A `BatchClassifier` of what is known now; what all batches need is computed here, once.

        It is called without gradients.
        """

    def _features(self, images: Tensor) -> Tensor:
        """For one batch, uint8 N x C x H x W, what a `BatchClassifier` works on: where not `frozen`, the images."""
        return images

    def learn(self, task: Task, on_step: StepCallback = ignore_steps) -> None:
        """Learn `task`. Nothing of it is used after this returns, except what the ledger shows."""
        self.old_classes, self.classes = self.classes, tuple(sorted({*self.classes, *task.classes}))
        try:
            # Layers such as dropout know no generator: they too shall depend on the seed and the task alone.
            with borrowed(self.generator("layers", task.position)):
                self._learn(task, on_step)
        except BaseException:
            self.classes = self.old_classes
            raise
        finally:
            self.old_classes = ()

    @property
    def deterministic(self) -> bool:
        """Whether the seed changes nothing, with these settings; a class may also say `deterministic = True`."""
        return False

    @torch.no_grad()
    def embed(self, images: Tensor) -> Tensor:
        """The features, N x ..., of images, uint8 N x C x H x W; where a method is not `frozen`, the images."""
        if not self.frozen:
            return images
        return torch.cat([self._features(part.to(self.device)) for part in images.split(PREDICT_BATCH)])

    @torch.no_grad()
    def predict_proba(self, images: Tensor, embedded: bool = False) -> Tensor:
        """Probabilities of the classes seen: uint8 N x C x H x W to N x len(classes), columns as in `classes`.

        With `embedded`, `images` are what `embed` gave of them, now or after an earlier task.
        """
        return self.predictor()(images if embedded else self.embed(images))

    @torch.no_grad()
    def predictor(self) -> Callable[[Tensor], Tensor]:
        """What `predict_proba` gives now of what `embed` gave; what all images need is computed here, once."""
        if not self.classes:
            raise RuntimeError("predict before the first learn: no class is known yet")
        classify = self._classifier()

        @torch.no_grad()
        def read_all(features: Tensor) -> Tensor:
            return torch.cat([classify(part.to(self.device)).cpu() for part in features.split(PREDICT_BATCH)])

        return read_all

    def predict(self, images: Tensor, embedded: bool = False) -> Tensor:
        """The most probable class of each image: as `predict_proba`, to int64 N."""
        return torch.tensor(self.classes)[self.predict_proba(images, embedded).argmax(1)]

    def latent(self) -> LatentSpace | None:
        """Prototypes and latent space, for analyses; None for methods that have none. Called without gradients."""
        return None

    @classmethod
    def has_latent(cls) -> bool:
        """Whether `latent` gives anything."""
        return cls.latent is not Method.latent

    def generator(self, *purpose: str | int) -> torch.Generator:
        """The random numbers for one purpose of this method and seed."""
        return generator(self.context.seed, type(self).__name__, *purpose)

    def initial_weights(self) -> torch.Generator:
        """The random numbers for a network's first weights: of one seed, all methods start with the same trunk."""
        return generator(self.context.seed, "initial weights")

    def new_network(self, config: EncoderSettings, outputs: int) -> Network:
        """The network of this seed before any training: the trunk that is set, or on features what `head` says."""
        trunk = FEATURE_TRUNKS[config.head] if self.context.features else config.encoder
        return Network(trunk, self.context.image_shape, outputs, self.initial_weights()).to(self.device)

    def state(self) -> dict[str, Tensor]:
        """A copy of all that is carried, on the CPU, by name; `restore` takes it back."""
        found = {"classes": torch.tensor(self.classes, dtype=torch.int64)}
        for name in self._carried:
            found |= {state.join(name, inner): tensor for inner, tensor in state.flatten(getattr(self, name)).items()}
        return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in found.items()}

    def restore(self, saved: Mapping[str, Tensor]) -> None:
        """Continue from a `state` of a method with the same arguments."""
        self.classes = tuple(saved["classes"].tolist())
        for name, element in self._carried.items():
            setattr(self, name, state.rebuild(getattr(self, name), state.under(name, saved), element))

    def ledger(self) -> list[LedgerItem]:
        """What is kept between tasks, item by item."""
        totals: dict[str, list[int]] = {}
        for name, tensor in self.state().items():
            total = totals.setdefault(name.partition(".")[0], [0, 0])
            total[0] += tensor.numel()
            total[1] += tensor.nbytes
        return [LedgerItem(name, numbers, size) for name, (numbers, size) in totals.items()]

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
from protoreplay.core.rng import generator
from protoreplay.core.settings import Settings
from protoreplay.encoders.registry import ImageShape, trunk
from protoreplay.methods.augmentation import AugmentationSettings
from protoreplay.methods.replay_memory import BudgetPer
from protoreplay.streams.stream import Task

Reader = Callable[[Tensor], Tensor]
"""From one batch of what `Method.features` gives, N x ..., to probabilities of the classes seen, N x C."""

PREDICT_BATCH = 256


@dataclass(frozen=True)
class MethodContext:
    """What a method is told before it sees an image.

    Attributes:
        image_shape: channels, height, width of the images to come.
        num_classes: labels are below this.
        seed: all that is random is derived from it.
        device: where to compute.
    """

    image_shape: ImageShape
    num_classes: int
    seed: int = 0
    device: str = "cpu"


@dataclass(frozen=True)
class LedgerItem:
    """One kind of thing that is carried from task to task."""

    name: str
    numbers: int
    bytes: int


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
    """The network's trunk; the protocol prescribes it, so that all methods share it."""
    epochs: int = Field(50, ge=0)
    """Passes over the images of a task (published: 50)."""
    batch_size: int = Field(128, ge=2)
    """Images per step at most (published: 128)."""
    # Written down only where it is not the default: a run of before there was a choice is still the same run.
    max_steps: Annotated[int, Field(ge=1)] | Literal["all"] = Field("all", exclude_if=lambda wanted: wanted == "all")
    """Steps per task at most: a task of many images is then not trained on for all its `epochs` (ours)."""


class MemorySettings(EncoderSettings):
    """Settings of methods that keep images."""

    lr: float = Field(1e-3, gt=0)
    """Adam's learning rate (published for split-cifar10: 1e-3)."""
    budget: int = Field(10, ge=0)
    """Images that are kept (published for split-cifar10: 10)."""
    budget_per: BudgetPer = "run"
    """Whether the budget is shared by all classes or granted to each class of each task."""


C = TypeVar("C", bound=Settings)


class Method(ABC, Generic[C]):
    """A learner of a stream of tasks.

    Everything carried from task to task is in `tensors()`: what is saved, restored and counted. `search` names the
    values that are tried when settings are tuned.
    """

    Config: ClassVar[type[Settings]]
    summary: ClassVar[str]
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    frozen: ClassVar[bool] = False
    """Whether `features` gives an image the same from the first task on, so that it need not be computed again."""

    def __init__(self, config: C, context: MethodContext) -> None:
        """Store the arguments; subclasses add what they carry."""
        self.config = config
        self.context = context
        self.device = torch.device(context.device)
        self.classes: tuple[int, ...] = ()

    @abstractmethod
    def learn(self, task: Task, report: StepCallback = ignore_steps) -> None:
        """Learn `task`. Nothing of it is used after this returns, except what the ledger shows."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """All that is carried from task to task; the part of a name before the first dot is its ledger item."""

    @abstractmethod
    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what `tensors()` of a method with the same arguments gave."""

    @abstractmethod
    def reader(self) -> Reader:
        """A `Reader` of what is known now; what all batches need is computed here, once. Called without gradients."""

    def latent(self) -> LatentSpace | None:
        """Prototypes and latent space, for analyses; None for methods that have none. Called without gradients."""
        return None

    @classmethod
    def has_latent(cls) -> bool:
        """Whether `latent` gives anything."""
        return cls.latent is not Method.latent

    def see(self, task: Task) -> None:
        """Add the task's classes to the classes that can be predicted."""
        self.classes = tuple(sorted({*self.classes, *task.classes}))

    def generator(self, *purpose: str | int) -> torch.Generator:
        """The random numbers for one purpose of this method and seed."""
        return generator(self.context.seed, type(self).__name__, *purpose)

    def initial_weights(self) -> torch.Generator:
        """The random numbers for a network's first weights: of one seed, all methods start with the same trunk."""
        return generator(self.context.seed, "initial weights")

    def features(self, images: Tensor) -> Tensor:
        """For one batch, uint8 N x C x H x W, what a `Reader` works on: where not `frozen`, the images."""
        return images

    @torch.no_grad()
    def embed(self, images: Tensor) -> Tensor:
        """The features, N x ..., of images, uint8 N x C x H x W: what `answer` takes."""
        if not self.frozen:
            return images
        return torch.cat([self.features(part.to(self.device)) for part in images.split(PREDICT_BATCH)])

    @torch.no_grad()
    def answer_proba(self, features: Tensor) -> Tensor:
        """Probabilities of the classes seen: features as `embed` gave them, now or after an earlier task, N x ..."""
        if not self.classes:
            raise RuntimeError("predict before the first learn: no class is known yet")
        read = self.reader()
        return torch.cat([read(part.to(self.device)).cpu() for part in features.split(PREDICT_BATCH)])

    def answer(self, features: Tensor) -> Tensor:
        """The most probable class, int64 N, of features as `embed` gave them, now or after an earlier task."""
        return torch.tensor(self.classes)[self.answer_proba(features).argmax(1)]

    def predict_proba(self, images: Tensor) -> Tensor:
        """Probabilities of the classes seen: uint8 N x C x H x W to N x len(classes), columns as in `classes`."""
        return self.answer_proba(self.embed(images))

    def predict(self, images: Tensor) -> Tensor:
        """The most probable class of each image: uint8 N x C x H x W to int64 N."""
        return self.answer(self.embed(images))

    def state(self) -> dict[str, Tensor]:
        """A copy of all that is carried, on the CPU, by name; `restore` takes it back."""
        everything = {"classes": torch.tensor(self.classes, dtype=torch.int64), **self.tensors()}
        return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in everything.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a `state` of a method with the same arguments."""
        self.classes = tuple(state["classes"].tolist())
        self.load_tensors({name: tensor for name, tensor in state.items() if name != "classes"})

    def ledger(self) -> list[LedgerItem]:
        """What is kept between tasks, item by item."""
        totals: dict[str, list[int]] = {}
        for name, tensor in self.state().items():
            total = totals.setdefault(name.partition(".")[0], [0, 0])
            total[0] += tensor.numel()
            total[1] += tensor.nbytes
        return [LedgerItem(name, numbers, size) for name, (numbers, size) in totals.items()]


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The entries named `prefix.*`, without the prefix."""
    return {name.removeprefix(f"{prefix}."): t for name, t in tensors.items() if name.startswith(f"{prefix}.")}


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The entries with `prefix.` before their names."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}

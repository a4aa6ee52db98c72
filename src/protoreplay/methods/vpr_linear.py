"""The paper's loss with a linear variational head on a body that stands still after the first task.

The head is two linear maps, from the body's features to a latent mean and to a log-variance. A class's prototype is the
average of both over its images, and the average of a linear map is the map of the average: from the mean of a class's
features, which never change, comes its exact prototype behind every later head. No image is needed for that.
"""

import math
from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from protoreplay.core.progress import StepCallback
from protoreplay.encoders.dictionary import DictionarySettings, PatchDictionary
from protoreplay.encoders.fixed import GivenFeatures
from protoreplay.encoders.network import Network, as_gaussian
from protoreplay.methods.augmentation import AugmentationSettings, augment
from protoreplay.methods.base import BatchClassifier, EncoderName, Method, MethodContext
from protoreplay.methods.class_statistics import ClassStatistics, Spread
from protoreplay.methods.optimizers import adam, descend
from protoreplay.methods.replay_memory import BudgetPer, ReplayMemory, quota
from protoreplay.methods.vpr_paper import VPRPaper, VPRPaperConfig
from protoreplay.prototypes.distances import expected_squared_distances, sampled_squared_distances, squared_distances
from protoreplay.prototypes.gaussians import Gaussian, class_probabilities, independent_noise
from protoreplay.streams.stream import Task


class VPRLinearConfig(DictionarySettings, AugmentationSettings):
    """Settings of the linear form; "paper" names where a default comes from, all others were chosen on validation."""

    body: Literal["dictionary", "trunk", "features"] = "dictionary"
    """A dictionary of patches of the first task's images, or the trunk of `encoder`, trained as in `vpr-paper` in the
    first task; neither changes after the first task. `features` are those of `--encoder`."""
    encoder: EncoderName = "conv-small"
    """The network of `body=trunk`; the protocol prescribes it."""
    dim: int = Field(500, ge=1)
    """Latent dimension with `body=trunk` (paper, CIFAR-10: 500); on the dictionary it is that of the features."""
    epochs: int = Field(50, ge=0)
    """Epochs on the first task, in which `body=trunk` is trained (the baselines' script: 50)."""
    batch_size: int = Field(128, ge=2)
    """Maximum batch size while `body=trunk` is trained (the baselines' script: 128)."""
    max_steps: Annotated[int, Field(ge=1)] | Literal["all"] = "all"
    """Maximum number of steps in which `body=trunk` is trained."""
    views: int = Field(200, ge=1)
    """Number of views per class: its images and augmented copies of all of them; with 1, only the images. A prototype
    is the midpoint between the mean of the images and the mean of all views."""
    augment_shift: int = Field(4, ge=0)
    """Shift of views, up to this many pixels in each direction; the border is filled by reflection."""
    augment_colour: float = Field(0.8, ge=0, le=1)
    """Maximum relative change of brightness, contrast and, in colour images, saturation of views."""
    augment_hue: float = Field(0.6, ge=0, le=math.pi)
    """Maximum hue rotation of views, in radians."""
    augment_erase: float = Field(0.2, ge=0, le=1)
    """Side of a randomly placed grey square in each view, as a fraction of the image's side."""
    steps: int = Field(100, ge=0)
    """Training steps of the head in every task; with 0 the head keeps its initial values, which on the dictionary is
    the nearest prototype."""
    lr: float = Field(1e-4, gt=0)
    """Adam's learning rate; its moments are reset for each task."""
    episode_shots: int = Field(5, ge=1)
    """Support images of each new class in a step, and as many query images of it and replayed images of each old class
    (paper: half of ten images)."""
    replay: Literal["images", "means", "samples"] = "samples"
    """What is replayed of old classes: views of stored images (paper), the means of their features, or samples from
    mean and variance."""
    covariance: Literal["class", "shared"] = "class"
    """Distribution of the samples: each class's own variances, or one full covariance shared by all classes."""
    budget: int = Field(10, ge=0)
    """Number of images kept for `replay=images` (the paper keeps 10 on CIFAR-10)."""
    budget_per: BudgetPer = "run"
    """Whether all classes share the budget, or each class of each task has its own."""
    samples: int = Field(50, ge=1)
    """Z, the number of samples drawn from every image and every prototype (paper: 50)."""
    expectation: Literal["sampled", "closed-form"] = "sampled"
    """Distances between Z samples (paper), or their expected square in closed form."""
    distance: Literal["norm", "squared"] = "norm"
    """Euclidean norm (paper) or its square."""
    weighted: bool = True
    """Weight each dimension of a distance by `exp(-0.5 * logvar)` of the prototype (paper, in replay)."""
    tau: float = Field(1.0, gt=0)
    """Temperature that divides distances."""

    def kept_spread(self) -> Spread:
        """What has to be kept of a class beside its mean."""
        return self.covariance if self.replay == "samples" else "none"


class Queries(NamedTuple):
    """What a step classifies: features, M x D; the prototype of each, int64, M; what each counts in the loss, M."""

    features: Tensor
    targets: Tensor
    share: Tensor


ClassPool = Tensor
"""Features of views of one new class's images: views x images x D."""


class VPRLinear(Method[VPRLinearConfig]):
    """A frozen body, a linear variational head, and in front of it the statistics of every (task, class) pair."""

    Config = VPRLinearConfig
    frozen = True
    summary = "Variational Prototype Replays: the paper's loss, linear head on a frozen body"

    def __init__(self, config: VPRLinearConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        if config.body == "trunk":
            network = Network(config.encoder, context.image_shape, 2 * config.dim, self.initial_weights())
            body, head = network.trunk, network.head
        elif context.features:
            body, head = GivenFeatures(), identity_head(math.prod(context.image_shape))
        else:
            body = PatchDictionary(context.image_shape, config)
            head = identity_head(body.width)
        self.body = self.carry("body", body.to(self.device).requires_grad_(False))
        self.head = self.carry("head", head.to(self.device))
        self.scale = self.carry("scale", torch.ones((), device=self.device))
        """Features are divided by it: within the first task's classes they then have a mean variance of 1."""
        nothing = ClassStatistics.none(head.in_features, config.kept_spread(), self.device)
        self.statistics = self.carry("statistics", nothing)
        self.memory = self.carry("memory", ReplayMemory.empty(context.no_images()))

    def _features(self, images: Tensor) -> Tensor:
        """What the body makes of a batch, N x D."""
        features: Tensor = self.body(images)
        return features / self.scale

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Make the body if this is the first task; train the head; keep the statistics of the task's classes."""
        first = not self.old_classes
        if first:
            self._make_body(task, on_step)
        pools = self._pools(task)
        if first and self.config.body != "trunk":
            self.scale, pools = self._unit_variance(pools)
        # In its first task a trunk is trained together with the head, by the same loss.
        if self.config.steps and not (first and self.config.body == "trunk"):
            self._train(pools, self.generator("learn", task.position), on_step)
        for label, pool in zip(task.classes, pools, strict=True):
            features, weight = pool.flatten(0, 1), view_weights(pool)
            self.statistics = self.statistics.plus(features, weight, task.position, label)
        if self.config.replay == "images":
            share = quota(self.config.budget, self.config.budget_per, len(self.statistics))
            self.memory = self.memory.after(task, share, self.generator("memory", task.position))

    def _make_body(self, task: Task, on_step: StepCallback) -> None:
        """Of the first task's images: fit the dictionary, or train trunk and head exactly as `vpr-paper` does."""
        if isinstance(self.body, GivenFeatures):
            return
        if isinstance(self.body, PatchDictionary):
            self.body.fit(task.images.to(self.device), self.generator("body"))
            return
        shared = {key: getattr(self.config, key) for key in ("encoder", "dim", "epochs", "batch_size", "max_steps")}
        paper = VPRPaper(VPRPaperConfig(**shared), self.context)
        paper.learn(task, on_step)
        self.body.load_state_dict(paper.network.trunk.state_dict())
        self.head.load_state_dict(paper.network.head.state_dict())

    def _pools(self, task: Task) -> list[ClassPool]:
        """Features of the views of every class of a task, in their order."""
        random, pools = self.generator("views", task.position), []
        for label in task.classes:
            own = task.images[task.labels == label].to(self.device)
            pools.append(self.embed(self._views(own, random)).unflatten(0, (-1, len(own))))
        return pools

    def _views(self, images: Tensor, random: torch.Generator) -> Tensor:
        """Views of one class's images, so many that there are `views` of the class: first the images themselves."""
        each = math.ceil(self.config.views / len(images))
        return torch.cat([images, augment(images.repeat(each - 1, 1, 1, 1), self.config, random)])

    def _unit_variance(self, pools: list[ClassPool]) -> tuple[Tensor, list[ClassPool]]:
        """The deviation of features within classes, and the pools divided by it; 1 where nothing varies."""
        apart = [(pool - pool.mean((0, 1))).square().mean() for pool in pools]
        variance = torch.stack(apart).mean()
        scale = torch.where(variance > 0, variance.sqrt(), 1.0)
        return scale, [pool / scale for pool in pools]

    def _train(self, pools: list[ClassPool], random: torch.Generator, on_step: StepCallback) -> None:
        """Steps on the head: images of new classes, and old classes as they come back, among all prototypes."""
        known = len(self.statistics)
        if known + len(pools) < 2:
            return
        optimizer = adam(self.head, self.config.lr)
        replayed = self._replayed(random)
        for step in range(1, self.config.steps + 1):
            support, queries = self._episode(pools, replayed, random)
            prototypes = self.gaussian(torch.cat([self.statistics.mean, support]))
            loss = self._loss(queries, prototypes, random)
            on_step(step, self.config.steps, descend(optimizer, loss))

    def _episode(
        self, pools: list[ClassPool], replayed: Callable[[], tuple[Tensor, Tensor]], random: torch.Generator
    ) -> tuple[Tensor, Queries]:
        """One step's draw: mean features of the new classes' support, K x D, and what is to be told apart.

        Args:
            pools: of the new classes, whose prototypes stand after those of old ones.
            replayed: draws features of old classes, M x D, and the prototype of each, int64, M.
            random: for all draws.
        """
        known, support = len(self.statistics), []
        features, targets = replayed()
        parts, rows = [features], [targets]
        for number, pool in enumerate(pools, start=known):
            made, asked = self._halves(pool, random)
            support.append(made.mean(0))
            parts.append(asked)
            rows.append(torch.full((len(asked),), number, device=self.device))
        target = torch.cat(rows)
        # Every class that is there counts alike, however many of its images are.
        count = target.bincount(minlength=known + len(pools))
        share = 1 / (count[target] * (count > 0).sum())
        return torch.stack(support), Queries(torch.cat(parts), target, share)

    def _halves(self, pool: ClassPool, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """Support and query features of one class, each N x D: random views of different images, if there are two."""
        views, images = pool.shape[:2]
        half = max(1, min(self.config.episode_shots, images // 2))
        order = torch.randperm(images, generator=random)
        place = torch.cat([order[:half], order[half : 2 * half] if images > 1 else order])
        view = torch.randint(views, (len(place),), generator=random)
        drawn = pool[view.to(pool.device), place.to(pool.device)]
        return drawn[:half], drawn[half:]

    def _replayed(self, random: torch.Generator) -> Callable[[], tuple[Tensor, Tensor]]:
        """Draws what comes back of old classes in a step: features, M x D, and the row of the pair of each."""
        known, shots = len(self.statistics), self.config.episode_shots
        rows = torch.arange(known, device=self.device)
        if self.config.replay == "means":
            return lambda: (self.statistics.mean, rows)
        if self.config.replay == "images":
            return self._replayed_images(random)
        deviations = self.statistics.deviations() if known else self.statistics.mean

        def draw() -> tuple[Tensor, Tensor]:
            noise = torch.randn(known, shots, self.statistics.mean.shape[1], generator=random).to(self.device)
            samples = self.statistics.samples(deviations, noise) if known else noise
            return samples.flatten(0, 1), rows.repeat_interleave(shots)

        return draw

    def _replayed_images(self, random: torch.Generator) -> Callable[[], tuple[Tensor, Tensor]]:
        """Draws views of the memory's images; a pair of which none is stored does not come back."""
        pairs = torch.stack([self.memory.tasks, self.memory.classes], 1)
        pools = []
        for row, pair in enumerate(torch.stack([self.statistics.tasks, self.statistics.classes], 1)):
            own = self.memory.images[(pairs == pair).all(1)].to(self.device)
            if len(own):
                pools.append((row, self.embed(self._views(own, random))))

        def draw() -> tuple[Tensor, Tensor]:
            features, targets = [self.statistics.mean[:0]], []
            for row, pool in pools:
                place = torch.randint(len(pool), (self.config.episode_shots,), generator=random)
                features.append(pool[place.to(self.device)])
                targets += [row] * len(place)
            return torch.cat(features), torch.tensor(targets, dtype=torch.int64, device=self.device)

        return draw

    def gaussian(self, features: Tensor) -> Gaussian:
        """Behind the head: of images' features, N x D, or of the mean features of classes their prototypes."""
        return Gaussian(*as_gaussian(self.head(features)))

    def _loss(self, queries: Queries, prototypes: Gaussian, random: torch.Generator) -> Tensor:
        """Cross-entropy over all prototypes, averaged over samples; each class counts alike."""
        images, weight = self.gaussian(queries.features), self._weight(prototypes)
        if self.config.expectation == "closed-form":
            squared = expected_squared_distances(images, prototypes, weight)[None]
        else:
            drawn = images.sample(self._noise(images, random))
            squared = sampled_squared_distances(drawn, prototypes, self._noise(prototypes, random), weight)
        scores = self._scores(squared)
        losses = functional.cross_entropy(
            scores.movedim(2, 1), queries.targets.expand(len(scores), -1), reduction="none"
        )
        return losses.mean(0) @ queries.share

    def _noise(self, of: Gaussian, random: torch.Generator) -> Tensor:
        rows, dim = of.mean.shape
        return independent_noise(self.config.samples, rows, dim, random).to(self.device)

    def _weight(self, prototypes: Gaussian) -> Tensor | None:
        # The weight in the squared distance is the square of exp(-0.5 * logvar).
        return (-prototypes.logvar).exp() if self.config.weighted else None

    def _scores(self, squared: Tensor) -> Tensor:
        return (squared.sqrt() if self.config.distance == "norm" else squared) * (-1 / self.config.tau)

    def _classifier(self) -> BatchClassifier:
        """The nearest prototype, by the means of both, weighted as in training."""
        prototypes, classes = self.gaussian(self.statistics.mean), torch.tensor(self.classes, device=self.device)
        owners, weight = self.statistics.classes.to(self.device), self._weight(prototypes)

        def read(features: Tensor) -> Tensor:
            squared = squared_distances(self.gaussian(features).mean, prototypes.mean, weight)
            return class_probabilities(self._scores(squared).softmax(1), owners, classes)

        return read


def identity_head(width: int) -> nn.Linear:
    """The head that changes nothing: a feature is its own latent mean, and every variance is 1."""
    head: nn.Linear = nn.utils.skip_init(nn.Linear, width, 2 * width)
    with torch.no_grad():
        head.weight.copy_(torch.eye(2 * width, width))
        head.bias.zero_()
    return head


def view_weights(pool: ClassPool) -> Tensor:
    """What each view counts in its class's statistics, views * images, with the sum 1: the images half of everything.

    Views differ from images more than other images do; where there are no views but the images, all count alike.
    """
    views, images = pool.shape[:2]
    weight = pool.new_full((views, images), 0.5 / (views * images))
    weight[0] += 0.5 / images
    return weight.flatten()


class VPRLinearFeatureConfig(VPRLinearConfig):
    """Settings of the linear form on the features of `--encoder`: there are no images to make views of."""

    body: Literal["features"] = "features"
    """The features of `--encoder`."""
    views: int = Field(1, ge=1, le=1)
    """Features have no views: 1."""
    augment_shift: int = Field(0, ge=0, le=0)
    """Features are not augmented: 0."""
    augment_colour: float = Field(0.0, ge=0, le=0)
    """Features are not augmented: 0."""
    augment_hue: float = Field(0.0, ge=0, le=0)
    """Features are not augmented: 0."""
    augment_erase: float = Field(0.0, ge=0, le=0)
    """Features are not augmented: 0."""


class VPRLinearOnFeatures(VPRLinear):
    """The linear variational head on given features."""

    Config = VPRLinearFeatureConfig


VPRLinear.on_features = VPRLinearOnFeatures

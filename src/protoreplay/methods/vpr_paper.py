"""Variational Prototype Replays as in the text of its paper, with every choice as a setting.

`VPRPaper._learn` is the paper's Algorithm 1. What `fused` does instead of its inner loop is in `fused_replay.py`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from protoreplay.core.progress import StepCallback
from protoreplay.methods.augmentation import augment
from protoreplay.methods.base import (
    PREDICT_BATCH,
    BatchClassifier,
    LatentSpace,
    MemorySettings,
    Method,
    MethodContext,
)
from protoreplay.methods.batches import episodes, steps_per_task
from protoreplay.methods.fused_replay import FusedReplay, MomentEncoding, OutputEncoding
from protoreplay.methods.optimizers import OptimizerName, descend, optimizer_of
from protoreplay.methods.past_task import PastTask, past_tasks
from protoreplay.methods.replay_memory import ReplayMemory, quota
from protoreplay.prototypes.distances import (
    common_noise_squared_distances,
    expected_squared_distances,
    sampled_squared_distances,
    squared_distances,
)
from protoreplay.prototypes.gaussians import (
    Gaussian,
    PrototypeBank,
    antithetic_noise,
    class_probabilities,
    group_means,
    independent_noise,
)
from protoreplay.streams.stream import Task


class VPRPaperConfig(MemorySettings):
    """Settings of the paper's form; "paper" names where a default comes from, "ours" what the paper leaves open."""

    optimizer: OptimizerName = "adam"
    """Plain stochastic gradient descent, as the paper's text says (preset `text`), or Adam, whose moments start anew
    with each task and which is six percentage points better on validation streams."""
    lr: float = Field(3e-4, gt=0)
    """Learning rate; the paper does not report one, so it was chosen on validation streams."""
    first_epochs: Annotated[int, Field(ge=0)] | Literal["epochs"] = "epochs"
    """Epochs on the first task (released code: 100); by default `epochs`."""
    dim: int = Field(500, ge=1)
    """Latent dimension (paper, CIFAR-10: 500)."""
    samples: int = Field(50, ge=1)
    """Z, the number of samples drawn from every image and every prototype (paper: 50)."""
    expectation: Literal["sampled", "averaged", "closed-form", "means"] = "sampled"
    """Distances between Z samples (paper); between Z samples of an image and the mean sample of a prototype (released
    code); the expected square in closed form; or distances between means, ignoring the variance."""
    tau: float = Field(3.0, gt=0)
    """Temperature that divides distances; the paper tunes it on validation sets without reporting it, and so do we."""
    distance: Literal["norm", "squared"] = "norm"
    """Euclidean norm (paper) or its square (released code, with `tau=2`)."""
    weighted: bool = True
    """Replay weighs each dimension by `exp(-0.5 * logvar)` of the stored prototype (paper)."""
    replay_order: Literal["forward", "backward", "latest-only"] = "forward"
    """Order in which the stored prototype sets of past tasks are replayed (paper: forward)."""
    replay_every: int = Field(1, ge=1)
    """Replay after every k-th step on new images (paper: 1; released code: 2)."""
    new_loss: Literal["new images", "stored images too"] = "new images"
    """Images classified in a step on new images: only those (paper), or also the images of the memory (released
    code)."""
    fused: bool = False
    """One optimiser step on the mean of all past tasks' replay losses, instead of one step each (paper). Several past
    tasks may then share the samples of an image and the noise of a class's prototypes, and noise is drawn in pairs of
    opposite sign, which leaves the distribution of each sample unchanged."""
    recall: Literal["both", "mean", "variance"] = "both"
    """What is replayed: samples from mean and variance (paper), only the means, or only the log-variances."""
    old_prototypes: Literal["re-embedded", "kept"] = "re-embedded"
    """After a task, prototypes of old classes are recomputed from the images in memory (paper) or kept."""
    prediction: Literal["samples", "means"] = "samples"
    """Probabilities averaged over Z samples (paper), or computed from distances between means."""
    # Written down only where it is not the default: a run of before there was a choice is still the same run.
    trunk: Literal["trained", "frozen"] = Field("trained", exclude_if=lambda wanted: wanted == "trained")
    """Whether every task trains all weights (paper), or tasks after the first only the last layer, which outputs mean
    and log-variance."""


class VPRPaper(Method[VPRPaperConfig]):
    """An encoder of images as Gaussians, the prototypes stored after every task, and a small replay memory."""

    Config = VPRPaperConfig
    summary = "Variational Prototype Replays"
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {"lr": (1e-4, 3e-4, 1e-3, 3e-3), "tau": (0.3, 1.0, 3.0)}

    def __init__(self, config: VPRPaperConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        self.network = self.carry("network", self.new_network(config, 2 * config.dim))
        self.memory = self.carry("memory", ReplayMemory.empty(context.no_images()))
        self.prototypes: list[PrototypeBank] = self.carry(
            "prototypes", [], PrototypeBank.empty(config.dim, self.device)
        )

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Algorithm 1 of the paper: train, then store prototypes of old and new classes; and images."""
        images = task.images.to(self.device)
        groups = torch.searchsorted(torch.tensor(task.classes), task.labels)
        with self.network.training_mode(frozen_trunk=self._is_trunk_frozen()):
            self._train(images, groups, self.generator("learn", task.position), on_step)
        self._store(task, images, groups)

    def _train(self, images: Tensor, groups: Tensor, random: torch.Generator, on_step: StepCallback) -> None:
        """Alternate steps on the new images with replay of every past task.

        Args:
            images: of the task, uint8, N x C x H x W.
            groups: int64, N, from 0 up: the class of each image.
            random: for all draws.
            on_step: told of every step on new images.
        """
        trained = self.network.head if self._is_trunk_frozen() else self.network
        optimizer = optimizer_of(self.config.optimizer, trained, self.config.lr)
        past = self._past_tasks()
        fused = self._fused_replay(past) if self.config.fused and past else None
        plan = self.config
        if not self.prototypes and self.config.first_epochs != "epochs":
            plan = self.config.model_copy(update={"epochs": self.config.first_epochs})
        steps = steps_per_task(len(groups), plan)
        for step, (support, query) in enumerate(episodes(groups, plan, random), start=1):
            loss = descend(optimizer, self._new_image_loss(images, groups, support, query, random))
            if step % self.config.replay_every == 0:
                if fused is not None:
                    self._fused_step(fused, optimizer, random)
                else:
                    for past_task in past:
                        descend(optimizer, self._replay_loss(past_task, random))
            on_step(step, steps, loss)

    def _is_sampled(self) -> bool:
        return self.config.expectation in ("sampled", "averaged")

    def _is_trunk_frozen(self) -> bool:
        return self.config.trunk == "frozen" and bool(self.prototypes)

    def _new_image_loss(
        self, images: Tensor, groups: Tensor, support: Tensor, query: Tensor, random: torch.Generator
    ) -> Tensor:
        """Query images among the prototypes of the support images and the old ones of the task before."""
        batch, targets = images[torch.cat([support, query])], groups[query].to(self.device)
        count, cut = int(groups.max()) + 1, len(support)
        if self.config.new_loss == "stored images too" and len(self.memory):
            batch = torch.cat([batch, self.memory.images.to(self.device)])
            rows = self.prototypes[-1].index(self.memory.tasks, self.memory.classes)
            targets = torch.cat([targets, count + rows.to(self.device)])
        mean, logvar = self.network.gaussian(augment(batch, self.config, random))
        new = group_means(Gaussian(mean[:cut], logvar[:cut]), groups[support].to(self.device), count)
        old = [self.prototypes[-1].gaussian] if self.prototypes else []
        squared = self._squared(Gaussian(mean[cut:], logvar[cut:]), [new, *old], random)
        return self._cross_entropy(squared, targets)

    def _replay_loss(self, past: PastTask, random: torch.Generator) -> Tensor:
        """The memory's images known after a past task among the prototypes stored then."""
        images = Gaussian(*self.network.gaussian(augment(past.images, self.config, random)))
        squared = self._replay_distances(images, past.prototypes, past.weight, random)
        return self._cross_entropy(squared, past.targets) * past.share

    def _past_tasks(self) -> list[PastTask]:
        """All past tasks of which the memory holds images, in the order of their replay."""
        orders = {"forward": self.prototypes, "backward": self.prototypes[::-1], "latest-only": self.prototypes[-1:]}
        return past_tasks(orders[self.config.replay_order], self.memory, self.config.weighted, self.device)

    def _replay_distances(
        self,
        images: Gaussian,
        stored: Gaussian,
        weight: Tensor | None,
        random: torch.Generator,
        noise_rows: Tensor | None = None,
    ) -> Tensor:
        """Squared distances of images, N x D, to stored prototypes, K x D: Z x N x K, or 1 x N x K without samples.

        Prototypes with the same number of `noise_rows`, int64, K, share their noise.
        """
        if self.config.recall == "mean":
            return squared_distances(images.mean, stored.mean)[None]
        if self.config.recall == "variance":
            return squared_distances(images.logvar, stored.logvar, weight)[None]
        if self.config.expectation == "means":
            return squared_distances(images.mean, stored.mean, weight)[None]
        if self.config.expectation == "closed-form":
            return expected_squared_distances(images, stored, weight, self._centre())[None]
        xs = images.sample(self._noise(len(images.mean), random))
        noise = self._prototype_noise(len(stored.mean) if noise_rows is None else int(noise_rows.max()) + 1, random)
        return sampled_squared_distances(xs, stored, noise, weight, noise_rows)

    def _centre(self) -> Tensor:
        """Of the newest prototypes, D: images to be replayed are near it."""
        return self.prototypes[-1].gaussian.mean.mean(0)

    def _fused_replay(self, past: list[PastTask]) -> FusedReplay:
        linear = self.config.recall == "both" and self.config.expectation == "closed-form"
        encoding = MomentEncoding(self._centre()) if linear else OutputEncoding(self._replay_distances)
        return FusedReplay(past, encoding, self._scores, self.config.samples if self._is_sampled() else 1)

    def _fused_step(self, fused: FusedReplay, optimizer: torch.optim.Optimizer, random: torch.Generator) -> None:
        """One optimiser step on the mean of all past tasks' losses."""
        optimizer.zero_grad()
        fused.backward(self.network(augment(fused.images, self.config, random)), random)
        optimizer.step()

    def _squared(self, x: Gaussian, sets: list[Gaussian], random: torch.Generator) -> Tensor:
        """Squared distances Z x N x K of samples of x (N x D) and of all `sets`, or 1 x N x K in closed form."""
        if self.config.expectation == "closed-form":
            return torch.cat([expected_squared_distances(x, y) for y in sets], -1)[None]
        if self.config.expectation == "means":
            return torch.cat([squared_distances(x.mean, y.mean) for y in sets], -1)[None]
        xs = x.sample(self._noise(len(x.mean), random))
        noises = [self._prototype_noise(len(y.mean), random) for y in sets]
        return torch.cat([sampled_squared_distances(xs, *one) for one in zip(sets, noises, strict=True)], -1)

    def _noise(self, rows: int, random: torch.Generator) -> Tensor:
        """Of Z samples, Z x rows x D; where replay is fused, in pairs: drawing it takes longer than what it is for."""
        draw = antithetic_noise if self.config.fused else independent_noise
        return draw(self.config.samples, rows, self.config.dim, random).to(self.device)

    def _prototype_noise(self, rows: int, random: torch.Generator) -> Tensor:
        """That of Z samples of prototypes, Z x rows x D; where these are averaged, of their average, Z times."""
        noise = self._noise(rows, random)
        return noise.mean(0).repeat(len(noise), 1, 1) if self.config.expectation == "averaged" else noise

    def _scores(self, squared: Tensor) -> Tensor:
        return (squared.sqrt() if self.config.distance == "norm" else squared) * (-1 / self.config.tau)

    def _cross_entropy(self, squared: Tensor, targets: Tensor) -> Tensor:
        """Averaged over samples and images: squared distances Z x N x K, targets N."""
        scores = self._scores(squared)
        return functional.cross_entropy(scores.flatten(0, 1), targets.repeat(len(scores)))

    @torch.no_grad()
    def _store(self, task: Task, images: Tensor, groups: Tensor) -> None:
        """Add the prototype set of this task, then the task's share of the memory."""
        bank = PrototypeBank(
            group_means(self._embed(images), groups.to(self.device), len(task.classes)),
            torch.full((len(task.classes),), task.position),
            torch.tensor(task.classes),
        )
        if self.prototypes:
            bank = PrototypeBank.concatenate(self._old_prototypes(self.prototypes[-1]), bank)
        self.prototypes.append(bank)
        share = quota(self.config.budget, self.config.budget_per, len(bank))
        self.memory = self.memory.after(task, share, self.generator("memory", task.position))

    def _old_prototypes(self, bank: PrototypeBank) -> PrototypeBank:
        if self.config.old_prototypes == "kept" or not len(self.memory):
            return bank
        rows, group = bank.index(self.memory.tasks, self.memory.classes).unique(return_inverse=True)
        fresh = group_means(self._embed(self.memory.images.to(self.device)), group.to(self.device), len(rows))
        mean, logvar = (
            old.index_copy(0, rows.to(self.device), new) for old, new in zip(bank.gaussian, fresh, strict=True)
        )
        return PrototypeBank(Gaussian(mean, logvar), bank.tasks, bank.classes)

    def _embed(self, images: Tensor) -> Gaussian:
        parts = [self.network.gaussian(part) for part in images.split(PREDICT_BATCH)]
        return Gaussian(torch.cat([mean for mean, _ in parts]), torch.cat([logvar for _, logvar in parts]))

    def latent(self) -> LatentSpace:
        """The encoder's space; the prototypes of the last task."""
        bank = self.prototypes[-1]
        mean, logvar = bank.gaussian
        return LatentSpace(mean, logvar.exp(), bank.classes, lambda images: self._embed(images.to(self.device)).mean)

    def _classifier(self) -> BatchClassifier:
        """Nearest prototype. All images share their noise, so that an answer does not depend on its batch."""
        bank, classes = self.prototypes[-1], torch.tensor(self.classes, device=self.device)
        owners = bank.classes.to(self.device)
        random = self.generator("predict")
        sampled = self.config.prediction == "samples" and self._is_sampled()
        prototypes = bank.gaussian.sample(self._prototype_noise(len(bank), random)) if sampled else bank.gaussian.mean
        noise = self._noise(1, random)[:, 0] if sampled else None

        def read(images: Tensor) -> Tensor:
            x = Gaussian(*self.network.gaussian(images))
            if noise is not None:
                squared = common_noise_squared_distances(x, prototypes, noise)
            elif "means" in (self.config.prediction, self.config.expectation):
                squared = squared_distances(x.mean, prototypes)[None]
            else:
                squared = expected_squared_distances(x, bank.gaussian)[None]
            nearest = self._scores(squared).softmax(-1).mean(0)
            return class_probabilities(nearest, owners, classes)

        return read

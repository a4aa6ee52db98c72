"""Variational Prototype Replays as in the text of its paper, with every choice as a setting."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from protoreplay.core.progress import StepCallback
from protoreplay.encoders.network import Network, as_gaussian
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
from protoreplay.methods.optimizers import adam, descend
from protoreplay.methods.replay_memory import ReplayMemory, quota
from protoreplay.prototypes.distances import (
    Landmarks,
    common_noise_squared_distances,
    expected_squared_distances,
    moments,
    sampled_squared_distances,
    squared_distances,
)
from protoreplay.prototypes.gaussians import Gaussian, PrototypeBank, class_probabilities, group_means
from protoreplay.streams.stream import Task

GROUP = 2**19
"""Past tasks are computed at once up to this many distances: enough to fill the processor, little memory."""


class VPRPaperConfig(MemorySettings):
    """Settings of the paper's form; "paper" names where a default comes from, "ours" what the paper leaves open."""

    lr: float = Field(1e-3, gt=0)
    """Adam's learning rate (published for split-cifar10: 1e-3); its moments start anew with each task (ours)."""
    dim: int = Field(500, ge=1)
    """Latent dimension (paper, CIFAR-10: 500)."""
    samples: int = Field(50, ge=1)
    """Z, samples drawn from every image and every prototype (paper: 50)."""
    expectation: Literal["sampled", "closed-form"] = "sampled"
    """Distances between Z samples (paper), or their expected square in closed form."""
    tau: float = Field(1.0, gt=0)
    """Temperature that divides distances (ours)."""
    distance: Literal["norm", "squared"] = "norm"
    """Euclidean norm (paper) or its square."""
    weighted: bool = True
    """Replay weighs each dimension by `exp(-0.5 * logvar)` of the stored prototype (paper)."""
    replay_order: Literal["forward", "backward", "latest-only"] = "forward"
    """The order in which the stored prototype sets of past tasks are met (paper: forward)."""
    replay_every: int = Field(1, ge=1)
    """Replay after every k-th step on new images (paper: 1)."""
    fused: bool = False
    """One optimiser step on the mean of all past tasks' replay losses, instead of one step each (paper). Samples of an
    image, and the noise of a class's prototypes, may then be shared by several past tasks, and noise comes in pairs of
    opposite sign, which changes no sample's distribution."""
    recall: Literal["both", "mean", "variance"] = "both"
    """What replay brings back: samples of mean and variance (paper), the means alone, the log-variances alone."""
    old_prototypes: Literal["re-embedded", "kept"] = "re-embedded"
    """After a task, prototypes of old classes come from the memory's images (paper), or stay as they were."""
    prediction: Literal["samples", "means"] = "samples"
    """Probabilities averaged over Z samples (paper), or from the distances of the means."""


@dataclass(frozen=True)
class _Recall:
    """One or more past tasks to replay at once: the prototypes stored after each, and the memory's images known then.

    Attributes:
        prototypes: of all these tasks, K x D; where distances are in closed form as landmarks, which hold the weight.
        weight: of dimensions in the distance to each, K x D, or None.
        images: N: the first images of the memory are replayed, which stands in the order of tasks.
        draws: int64, K: the same class's prototypes of several tasks have the same number, and share their noise.
        columns: int64, T x W: the prototypes of each task, and K to fill up.
        targets: int64, T x N: the place of each image's own prototype in the task's row of `columns`.
        shares: T x N, of each task and image in the loss; 0 where the task did not know the image.
    """

    prototypes: Gaussian | Landmarks
    weight: Tensor | None
    images: int
    draws: Tensor | None
    columns: Tensor
    targets: Tensor
    shares: Tensor


class VPRPaper(Method[VPRPaperConfig]):
    """An encoder of images as Gaussians, the prototypes stored after every task, and a small replay memory."""

    Config = VPRPaperConfig
    summary = "Variational Prototype Replays"

    def __init__(self, config: VPRPaperConfig, context: MethodContext) -> None:
        """A fresh encoder, no prototypes, an empty memory."""
        super().__init__(config, context)
        network = Network(config.encoder, context.image_shape, 2 * config.dim, self.initial_weights())
        self.network = self.carry("network", network.to(self.device))
        self.memory = self.carry("memory", ReplayMemory.empty(context.image_shape))
        self.prototypes: list[PrototypeBank] = self.carry(
            "prototypes", [], PrototypeBank.empty(config.dim, self.device)
        )

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Alternate steps on the new images with replay of every past task, then store prototypes and images."""
        random = self.generator("learn", task.position)
        images = task.images.to(self.device)
        groups = torch.searchsorted(torch.tensor(task.classes), task.labels)
        optimizer = adam(self.network, self.config.lr)
        replays, replayed = self._replays(), self.memory.images.to(self.device)
        steps = steps_per_task(len(groups), self.config)
        for step, (support, query) in enumerate(episodes(groups, self.config, random), start=1):
            loss = descend(optimizer, self._new_image_loss(images, groups, support, query, random))
            if step % self.config.replay_every == 0:
                for recalls in replays:
                    self._replay(recalls, replayed, optimizer, random)
            on_step(step, steps, loss)
        self._store(task, images, groups)

    def _new_image_loss(
        self, images: Tensor, groups: Tensor, support: Tensor, query: Tensor, random: torch.Generator
    ) -> Tensor:
        """Query images among the prototypes of the support images and the old ones of the task before."""
        batch = augment(images[torch.cat([support, query])], self.config, random)
        mean, logvar = self.network.gaussian(batch)
        cut = len(support)
        new = group_means(Gaussian(mean[:cut], logvar[:cut]), groups[support].to(self.device), int(groups.max()) + 1)
        old = [self.prototypes[-1].gaussian] if self.prototypes else []
        squared = self._squared(Gaussian(mean[cut:], logvar[cut:]), [new, *old], random)
        return self._cross_entropy(squared, groups[query].to(self.device))

    def _replays(self) -> list[list[_Recall]]:
        """What each optimiser step of a replay recalls: one past task, or, fused, all of them.

        Past tasks of which the memory holds no image are left out.
        """
        banks = {"forward": self.prototypes, "backward": self.prototypes[::-1], "latest-only": self.prototypes[-1:]}
        known = [(bank, bank.index(self.memory.tasks, self.memory.classes)) for bank in banks[self.config.replay_order]]
        known = [(bank, targets) for bank, targets in known if (targets >= 0).any()]
        if not self.config.fused:
            return [[self._recall([one], tasks=1)] for one in known]
        samples = self.config.samples if self.config.expectation == "sampled" else 1
        groups: list[list[tuple[PrototypeBank, Tensor]]] = []
        size = GROUP
        for bank, targets in known:
            size += samples * len(self.memory) * len(bank)
            if size > GROUP:
                groups.append([])
                size = samples * len(self.memory) * len(bank)
            groups[-1].append((bank, targets))
        return [[self._recall(group, len(known)) for group in groups]] if groups else []

    def _recall(self, known: list[tuple[PrototypeBank, Tensor]], tasks: int) -> _Recall:
        """These sets of prototypes, each with its rows of the memory's images (-1 if unknown), of `tasks` in a step."""
        bank = PrototypeBank.concatenate(*(bank for bank, _ in known))
        sizes = torch.tensor([len(bank) for bank, _ in known])
        places = torch.arange(int(sizes.max())).expand(len(known), -1)
        there = places < sizes[:, None]
        columns = torch.where(there, places + (sizes.cumsum(0) - sizes)[:, None], len(bank))
        targets = torch.stack([targets for _, targets in known])
        images = int((targets >= 0).any(0).sum())
        shares = (targets >= 0) / (targets >= 0).sum(1, keepdim=True) / tasks
        # The weight in the squared distance is the square of exp(-0.5 * logvar).
        weight = (-bank.gaussian.logvar).exp() if self.config.weighted else None
        prototypes: Gaussian | Landmarks = bank.gaussian
        if self._in_moments:
            prototypes, weight = Landmarks.of(bank.gaussian, self._centre(), weight), None
        return _Recall(
            prototypes,
            weight,
            images,
            # A set begins with the set of the task before.
            places[there].to(self.device) if len(known) > 1 else None,
            columns.to(self.device),
            targets[:, :images].clamp(min=0).to(self.device),
            shares[:, :images].to(self.device),
        )

    @property
    def _in_moments(self) -> bool:
        """Whether replay is in closed form: it then meets images as moments from `_centre`, and as outputs if not."""
        return self.config.recall == "both" and self.config.expectation == "closed-form"

    def _centre(self) -> Tensor:
        return self.prototypes[-1].gaussian.mean.mean(0)

    def _encoded(self, images: Tensor) -> Tensor:
        """What replay is a function of, N x 2 D: the network's outputs, or the moments of their Gaussians."""
        output = self.network(images)
        return moments(Gaussian(*as_gaussian(output)), self._centre()) if self._in_moments else output

    def _replay(
        self, recalls: list[_Recall], images: Tensor, optimizer: torch.optim.Optimizer, random: torch.Generator
    ) -> None:
        """One optimiser step that classifies the memory's images among the prototypes stored after past tasks."""
        images = images[: max(recall.images for recall in recalls)]
        encoded = self._encoded(augment(images, self.config, random))
        # The gradient is collected here, recall by recall, so that the memory of only one is needed at a time.
        gradient = torch.zeros_like(encoded)
        for recall in recalls:
            part = encoded.detach()[: recall.images].requires_grad_()
            gradient[: recall.images] += torch.autograd.grad(self._recall_loss(recall, part, random), part)[0]
        optimizer.zero_grad()
        encoded.backward(gradient)
        optimizer.step()

    def _recall_loss(self, recall: _Recall, encoded: Tensor, random: torch.Generator) -> Tensor:
        """The recalled tasks' share in the mean of all cross-entropies, each among the prototypes stored then."""
        squared = self._recall_distances(recall, encoded, random)
        if len(recall.columns) == 1:
            return self._cross_entropy(squared, recall.targets[0]) * recall.shares.sum()
        # One row a prototype: a set is then a number of whole rows, and the softmax runs along them.
        scores = functional.pad(self._scores(squared).flatten(0, 1).T, (0, 0, 0, 1), value=-torch.inf)
        scores = scores.index_select(0, recall.columns.flatten()).unflatten(0, recall.columns.shape)
        own = scores.log_softmax(1).gather(1, recall.targets.repeat(1, len(squared))[:, None])
        shares = recall.shares.repeat(1, len(squared)) / len(squared)
        return -torch.dot(own.flatten(), shares.flatten())

    def _recall_distances(self, recall: _Recall, encoded: Tensor, random: torch.Generator) -> Tensor:
        """Squared distances of all recalled images to all recalled prototypes, Z x N x K, or 1 x N x K."""
        stored = recall.prototypes
        if isinstance(stored, Landmarks):
            return stored.squared_distances(encoded)[None]
        images = Gaussian(*as_gaussian(encoded))
        if self.config.recall == "mean":
            return squared_distances(images.mean, stored.mean)[None]
        if self.config.recall == "variance":
            return squared_distances(images.logvar, stored.logvar, recall.weight)[None]
        xs = images.sample(self._noise(len(images.mean), random))
        noise = self._noise(len(stored.mean) if recall.draws is None else int(recall.draws.max()) + 1, random)
        return sampled_squared_distances(xs, stored, noise, recall.weight, recall.draws)

    def _squared(self, x: Gaussian, sets: list[Gaussian], random: torch.Generator) -> Tensor:
        """Squared distances Z x N x K of samples of x (N x D) and of all `sets`, or 1 x N x K in closed form."""
        if self.config.expectation == "closed-form":
            return torch.cat([expected_squared_distances(x, y) for y in sets], -1)[None]
        xs = x.sample(self._noise(len(x.mean), random))
        return torch.cat([sampled_squared_distances(xs, y, self._noise(len(y.mean), random)) for y in sets], -1)

    def _noise(self, rows: int, random: torch.Generator) -> Tensor:
        """Of Z samples, Z x rows x D; where replay is fused, in pairs: drawing it takes longer than what it is for."""
        samples = self.config.samples
        if not self.config.fused:
            return torch.randn(samples, rows, self.config.dim, generator=random).to(self.device)
        noise = torch.empty(samples, rows, self.config.dim)
        drawn = noise[: math.ceil(samples / 2)].normal_(generator=random)
        torch.neg(drawn[: samples // 2], out=noise[len(drawn) :])
        return noise.to(self.device)

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
        sampled = self.config.prediction == "samples" and self.config.expectation == "sampled"
        prototypes = bank.gaussian.sample(self._noise(len(bank), random)) if sampled else bank.gaussian.mean
        noise = self._noise(1, random)[:, 0] if sampled else None

        def read(images: Tensor) -> Tensor:
            x = Gaussian(*self.network.gaussian(images))
            if noise is not None:
                squared = common_noise_squared_distances(x, prototypes, noise)
            elif self.config.prediction == "means":
                squared = squared_distances(x.mean, prototypes)[None]
            else:
                squared = expected_squared_distances(x, bank.gaussian)[None]
            nearest = self._scores(squared).softmax(-1).mean(0)
            return class_probabilities(nearest, owners, classes)

        return read

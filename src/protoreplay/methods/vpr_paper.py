"""Variational Prototype Replays as in the text of its paper (METHOD section 1), with every choice as a setting."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from protoreplay.augmentation import augment
from protoreplay.encoders import Network
from protoreplay.memory import ReplayMemory, quota
from protoreplay.methods.base import (
    PREDICT_BATCH,
    MemorySettings,
    Method,
    Problem,
    Reader,
    Report,
    prefixed,
    silent,
    under,
)
from protoreplay.methods.batches import episodes, steps_per_epoch
from protoreplay.methods.optimizers import adam, descend
from protoreplay.protocols import Task
from protoreplay.prototypes import (
    Gaussian,
    PrototypeBank,
    class_probabilities,
    expected_squared_distances,
    group_means,
    squared_distances,
)


class VPRPaperConfig(MemorySettings):
    """Settings of the paper's form; "paper" names where a default comes from, "ours" what the paper leaves open."""

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
    """One optimiser step on the mean of all past tasks' replay losses, instead of one step each (paper)."""
    recall: Literal["both", "mean", "variance"] = "both"
    """What replay brings back: samples of mean and variance (paper), the means alone, the log-variances alone."""
    old_prototypes: Literal["re-embedded", "kept"] = "re-embedded"
    """After a task, prototypes of old classes come from the memory's images (paper), or stay as they were."""
    prediction: Literal["samples", "means"] = "samples"
    """Probabilities averaged over Z samples (paper), or from the distances of the means."""


@dataclass(frozen=True)
class _Recall:
    """One past task to replay: the prototypes stored after it, the memory's rows known then, and their prototypes."""

    bank: PrototypeBank
    rows: Tensor
    targets: Tensor


class VPRPaper(Method[VPRPaperConfig]):
    """An encoder of images as Gaussians, the prototypes stored after every task, and a small replay memory."""

    Config = VPRPaperConfig
    summary = "Variational Prototype Replays"

    def __init__(self, config: VPRPaperConfig, problem: Problem) -> None:
        """A fresh encoder, no prototypes, an empty memory."""
        super().__init__(config, problem)
        self.network = Network(config.encoder, problem.image_shape, 2 * config.dim, self.initial_weights())
        self.network.to(self.device)
        self.memory = ReplayMemory.empty(problem.image_shape)
        self.banks: list[PrototypeBank] = []

    def learn(self, task: Task, report: Report = silent) -> None:
        """Alternate steps on the new images with replay of every past task, then store prototypes and images."""
        random = self.generator("learn", task.position)
        images = task.images.to(self.device)
        groups = torch.searchsorted(torch.tensor(task.classes), task.labels)
        optimizer = adam(self.network, self.config.lr)
        recalls, replayed = self._recalls(), self.memory.images.to(self.device)
        steps = self.config.epochs * steps_per_epoch(len(groups), self.config)
        for step, (support, query) in enumerate(episodes(groups, self.config, random), start=1):
            loss = descend(optimizer, self._new_image_loss(images, groups, support, query, random))
            if recalls and step % self.config.replay_every == 0:
                self._replay(recalls, replayed, optimizer, random)
            report(step, steps, loss)
        self._store(task, images, groups)
        self.see(task)

    def _new_image_loss(
        self, images: Tensor, groups: Tensor, support: Tensor, query: Tensor, random: torch.Generator
    ) -> Tensor:
        """Query images among the prototypes of the support images and the old ones of the task before."""
        batch = augment(images[torch.cat([support, query])], self.config, random)
        mean, logvar = self.network.gaussian(batch)
        cut = len(support)
        new = group_means(Gaussian(mean[:cut], logvar[:cut]), groups[support].to(self.device), int(groups.max()) + 1)
        if self.banks:
            old = self.banks[-1].gaussian
            new = Gaussian(torch.cat([new.mean, old.mean]), torch.cat([new.logvar, old.logvar]))
        squared = self._sampled_squared(Gaussian(mean[cut:], logvar[cut:]), new, None, random)
        return self._cross_entropy(squared, groups[query].to(self.device))

    def _recalls(self) -> list[_Recall]:
        """The past tasks in the order of replay; those of which the memory holds no image are left out."""
        banks = {"forward": self.banks, "backward": self.banks[::-1], "latest-only": self.banks[-1:]}
        recalls = []
        for bank in banks[self.config.replay_order]:
            targets = bank.index(self.memory.tasks, self.memory.classes)
            rows = (targets >= 0).nonzero().flatten()
            if len(rows):
                recalls.append(_Recall(bank, rows.to(self.device), targets[rows].to(self.device)))
        return recalls

    def _replay(
        self, recalls: list[_Recall], images: Tensor, optimizer: torch.optim.Optimizer, random: torch.Generator
    ) -> None:
        """Classify the memory's images among the prototypes stored after each past task."""
        if self.config.fused:
            mean, logvar = self.network.gaussian(augment(images, self.config, random))
            losses = [self._recall_loss(r, Gaussian(mean[r.rows], logvar[r.rows]), random) for r in recalls]
            descend(optimizer, torch.stack(losses).mean())
        else:
            for recall in recalls:
                batch = augment(images[recall.rows], self.config, random)
                encoded = Gaussian(*self.network.gaussian(batch))
                descend(optimizer, self._recall_loss(recall, encoded, random))

    def _recall_loss(self, recall: _Recall, encoded: Gaussian, random: torch.Generator) -> Tensor:
        """Cross-entropy of the memory's images known after a past task among the prototypes stored then."""
        stored = recall.bank.gaussian
        # The weight in the squared distance is the square of exp(-0.5 * logvar).
        weight = (-stored.logvar).exp() if self.config.weighted else None
        if self.config.recall == "mean":
            squared = squared_distances(encoded.mean, stored.mean)[None]
        elif self.config.recall == "variance":
            squared = squared_distances(encoded.logvar, stored.logvar, weight)[None]
        else:
            squared = self._sampled_squared(encoded, stored, weight, random)
        return self._cross_entropy(squared, recall.targets)

    def _sampled_squared(self, x: Gaussian, y: Gaussian, weight: Tensor | None, random: torch.Generator) -> Tensor:
        """Squared distances Z x N x K between samples of x (N x D) and of y (K x D), or 1 x N x K in closed form."""
        if self.config.expectation == "closed-form":
            return expected_squared_distances(x, y, weight)[None]
        return squared_distances(
            x.sample(self._noise(len(x.mean), random)), y.sample(self._noise(len(y.mean), random)), weight
        )

    def _noise(self, rows: int, random: torch.Generator) -> Tensor:
        return torch.randn(self.config.samples, rows, self.config.dim, generator=random).to(self.device)

    def _scores(self, squared: Tensor) -> Tensor:
        return -(squared.sqrt() if self.config.distance == "norm" else squared) / self.config.tau

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
        if self.banks:
            bank = PrototypeBank.concatenate(self._old_prototypes(self.banks[-1]), bank)
        self.banks.append(bank)
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

    def reader(self) -> Reader:
        """Nearest prototype. All images share their noise, so that an answer does not depend on its batch."""
        bank, classes = self.banks[-1], torch.tensor(self.classes, device=self.device)
        owners = bank.classes.to(self.device)
        random = self.generator("predict")
        sampled = self.config.prediction == "samples" and self.config.expectation == "sampled"
        prototypes = bank.gaussian.sample(self._noise(len(bank), random)) if sampled else bank.gaussian.mean
        noise = self._noise(1, random) if sampled else None

        def read(images: Tensor) -> Tensor:
            x = Gaussian(*self.network.gaussian(images))
            if noise is not None:
                squared = squared_distances(x.sample(noise), prototypes)
            elif self.config.prediction == "means":
                squared = squared_distances(x.mean, prototypes)[None]
            else:
                squared = expected_squared_distances(x, bank.gaussian)[None]
            nearest = self._scores(squared).softmax(-1).mean(0)
            return class_probabilities(nearest, owners, classes)

        return read

    def tensors(self) -> dict[str, Tensor]:
        """The network, the memory, and the prototypes stored after each task."""
        result = prefixed("network", self.network.state_dict())
        result |= prefixed("memory", vars(self.memory))
        for number, bank in enumerate(self.banks, start=1):
            mean, logvar = bank.gaussian
            one = {"mean": mean, "logvar": logvar, "tasks": bank.tasks, "classes": bank.classes}
            result |= prefixed(f"prototypes.{number}", one)
        return result

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """The inverse of `tensors`."""
        self.network.load_state_dict(under("network", tensors))
        self.memory = ReplayMemory(**under("memory", tensors))
        self.banks = []
        while stored := under(f"prototypes.{len(self.banks) + 1}", tensors):
            gaussian = Gaussian(stored["mean"].to(self.device), stored["logvar"].to(self.device))
            self.banks.append(PrototypeBank(gaussian, stored["tasks"], stored["classes"]))

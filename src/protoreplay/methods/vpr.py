"""Variational Prototype Replays on a body that is made once: prototypes carry the memory, and samples of them replay.

The body turns an image into features and never changes after the first task. On it stands an invertible linear layer.
Prototypes, the mean of every class and the covariance that classes share, are kept in front of the layer, so that they
go through every change of it exactly.
"""

import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.encoders.dictionary import DictionarySettings, PatchDictionary
from protoreplay.encoders.fixed import RootPixels
from protoreplay.methods.augmentation import AugmentationSettings, augment
from protoreplay.methods.base import BatchClassifier, LatentSpace, Method, MethodContext
from protoreplay.methods.replay_memory import ReplayMemory
from protoreplay.methods.vpr_calibration import TaughtImages, left_out_losses
from protoreplay.methods.vpr_domains import Domains, aligned_is_better, aligned_order
from protoreplay.methods.vpr_prototypes import VPRPrototypes, means_by_label
from protoreplay.prototypes.distances import clusters
from protoreplay.prototypes.gaussians import class_probabilities
from protoreplay.prototypes.layer_training import Episode, train_layer
from protoreplay.prototypes.temperature import TEMPERATURES, best_temperature
from protoreplay.prototypes.whitening import DenseMatrix, DiagonalMatrix, SquareMatrix
from protoreplay.streams.stream import Task


class VPRConfig(DictionarySettings, AugmentationSettings):
    """Settings of VPR; all of them ours, chosen on validation streams."""

    body: Literal["dictionary", "pixels"] = "dictionary"
    """A dictionary of patches of the first task's images, or square roots of pixels where pixels have no neighbours."""
    views: int = Field(200, ge=1)
    """Views of a class: its images, and changed copies of all of them alike. A prototype is halfway between the mean of
    the images and that of all views."""
    augment_shift: int = Field(4, ge=0)
    """Views are shifted by up to this many pixels in each direction; what comes in is the reflected border."""
    augment_colour: float = Field(0.8, ge=0, le=1)
    """Brightness, contrast and, of colour images, saturation of views change by a factor of up to 1 +- this."""
    augment_hue: float = Field(0.6, ge=0, le=math.pi)
    """Colours of views are turned around grey by up to this angle, in radians."""
    augment_erase: float = Field(0.2, ge=0, le=1)
    """Side of a grey square that hides a random part of each view, as a share of the image's side."""
    prototypes: Annotated[int, Field(ge=1)] | Literal["sqrt"] = 1
    """Prototypes of a class in a task, or `sqrt`: as many as the square root of its images."""
    weighting: Literal["covariance", "variances", "none"] = "covariance"
    """What classes share and the layer whitens: the covariance, the variances alone, or nothing (no whitening)."""
    few: float = Field(100.0, ge=0)
    """So many images of a class tell half of how its images differ: with n images, their covariance counts
    n / (n + few) beside that of an image's views."""
    ridge: float = Field(0.7, gt=0)
    """Mean eigenvalues of the covariance that are added to it in every direction."""
    shrink: float = Field(0.7, gt=0, le=1)
    """How far from the centre of all prototypes one is taken to be: few images put it farther out than it is."""
    steps: int = Field(20, ge=0)
    """VPR steps on the layer after it was whitened, in every task."""
    lr: float = Field(0.0003, gt=0)
    """Adam's learning rate, times the layer's own scale."""
    episode_shots: int = Field(5, ge=1)
    """Support and query views, each, of a class in a step."""
    replay: Literal["samples", "means", "images"] = "samples"
    """How old classes come back in a step: samples of their prototypes, the means alone, views of stored images."""
    stored_images: int = Field(10, ge=1)
    """Images of every class that are stored for `replay=images`."""
    domains: Literal["aligned", "own"] = "aligned"
    """When classes come back: prototypes of their own, or the old ones in the order in which they fit, if that is
    better on held-out halves of the task's images. Only `pixels` can be put in another order."""


class VPR(Method[VPRConfig]):
    """A frozen body, an invertible linear layer, and the prototypes of all classes in front of it.

    Tasks that bring new classes extend the first *domain*. A task that brings classes back opens another one, with
    prototypes of its own, or with an order in which its inputs are those of the first domain.
    """

    Config = VPRConfig
    frozen = True
    summary = "Variational Prototype Replays: frozen body, linear layer, replay of prototype samples"

    def __init__(self, config: VPRConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        body = (
            RootPixels(context.image_shape) if config.body == "pixels" else PatchDictionary(context.image_shape, config)
        )
        self.body, width = self.carry("body", body.to(self.device)), body.width
        kind, shape = (DenseMatrix, (width, width)) if config.weighting == "covariance" else (DiagonalMatrix, (width,))
        self.layer: SquareMatrix = self.carry("layer", kind(torch.ones(shape, device=self.device)))
        nothing = kind(torch.zeros(shape, device=self.device))
        self.prototypes = self.carry("prototypes", VPRPrototypes.none(width, nothing))
        self.domains = self.carry("domains", Domains.first(width, self.device))
        self.calibration = self.carry("calibration", torch.zeros(len(TEMPERATURES)))
        """Loss, at each temperature, of all images so far, each left out of what was learned."""
        self.memory = self.carry("memory", ReplayMemory.empty(context.image_shape))

    def _features(self, images: Tensor) -> Tensor:
        """What the body makes of a batch, N x D."""
        features: Tensor = self.body(images)
        return features

    @torch.no_grad()
    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Make the body if this is the first task; then extend the first domain, or open another."""
        random = self.generator("learn", task.position)
        images = task.images.to(self.device)
        if not self.old_classes:
            self.body.fit(images, random)
        if set(task.classes).isdisjoint(self.old_classes):
            self._extend(task, images, random, on_step)
        else:
            self._open_domain(task, self.embed(images), random)

    def _extend(self, task: Task, images: Tensor, random: torch.Generator, on_step: StepCallback) -> None:
        """Add prototypes of the task's classes to the first domain and renew the layer."""
        old, pools, taught = len(self.prototypes.of(0)), [], []
        for label in task.classes:
            own = images[(task.labels == label).to(self.device)]
            views = self.embed(self._views(own, random)).unflatten(0, (-1, len(own)))
            centres = (views.mean(0) + views[0]) / 2
            means, nearest = clusters(centres, self._prototypes_of_class(len(own)), random)
            count = len(views) * nearest.bincount(minlength=len(means))
            weight = len(views) * (len(own) / (len(own) + self.config.few))
            self.prototypes = (
                self.prototypes.plus(means, count, label, 0)
                .plus_scatter(views - views.mean(0), 1.0)
                .plus_scatter(centres - means[nearest], weight)
            )
            taught.append(TaughtImages.of(label, views, centres - means[nearest], weight))
            pools += [views[:, nearest == number].flatten(0, 1) for number in range(len(means))]
        self.layer, root = self._whitening()
        first = self.prototypes.of(0)
        owners = first.classes.unique(return_inverse=True)[1]
        if self.config.steps and len(owners) > 1:
            episode = self._episodes(old, pools, root, random)
            self.layer = train_layer(self.layer, episode, owners, self.config.steps, self.config.lr, on_step)
        losses = left_out_losses(taught, first, self.layer, self.config.shrink)
        if losses is not None:
            self.calibration = self.calibration + losses
        if self.config.replay == "images":
            self.memory = self.memory.after(task, self.config.stored_images, self.generator("memory", task.position))

    def _views(self, images: Tensor, random: torch.Generator) -> Tensor:
        """Views of one class's images, so many that there are `views` of the class: first the images themselves."""
        each = math.ceil(self.config.views / len(images))
        return torch.cat([images, augment(images.repeat(each - 1, 1, 1, 1), self.config, random)])

    def _prototypes_of_class(self, images: int) -> int:
        wanted = self.config.prototypes
        return math.isqrt(images) if wanted == "sqrt" else min(wanted, images)

    def _whitening(self) -> tuple[SquareMatrix, SquareMatrix]:
        """The layer that whitens what the classes of the first domain share, and the root of it."""
        covariance = self.prototypes.covariance()
        if self.config.weighting == "none":
            covariance = covariance.isotropic()
        return covariance.whitening(self.config.ridge)

    def _episodes(self, old: int, pools: list[Tensor], root: SquareMatrix, random: torch.Generator) -> Episode:
        """Views of the new prototypes' images; for each of the `old` first ones what `replay` says."""
        first, shots = self.prototypes.of(0), self.config.episode_shots
        means = first.mean[:old, None]
        if self.config.replay == "images":
            rows = [self.memory.classes == label for label in first.classes[:old].tolist()]
            pools = [self.embed(self._views(self.memory.images[row].to(self.device), random)) for row in rows] + pools
        pool = torch.cat(pools)
        size = torch.tensor([len(views) for views in pools], device=self.device)[:, None]
        begin = size.cumsum(0) - size

        def episode() -> tuple[Tensor, Tensor]:
            drawn = torch.rand(len(size), 2 * shots, generator=random).to(self.device)
            x = pool[begin + (drawn * size).long()]
            if self.config.replay == "samples":
                noise = torch.randn(old, 2 * shots, means.shape[-1], generator=random).to(self.device)
                x = torch.cat([means + root.times(noise), x])
            elif self.config.replay == "means":
                x = torch.cat([means.expand(-1, 2 * shots, -1), x])
            return x[:, :shots], x[:, shots:]

        return episode

    def _open_domain(self, task: Task, x: Tensor, random: torch.Generator) -> None:
        """Take the old prototypes in another order where that answers for held-out images better than new ones."""
        labels = task.labels.to(self.device)
        if self._can_align(task) and aligned_is_better(x, labels, self.prototypes, self._answers, random):
            self.domains = self.domains.plus_aligned(aligned_order(x, labels, self.prototypes))
            return
        for label, mean in zip(*means_by_label(x, labels), strict=True):
            count = (labels == label).sum()[None]
            self.prototypes = self.prototypes.plus(mean[None], count, int(label), len(self.domains))
        self.domains = self.domains.plus_own()

    def _can_align(self, task: Task) -> bool:
        known = set(self.prototypes.of(0).classes.tolist())
        wanted = self.config.domains == "aligned" and self.config.body == "pixels"
        return wanted and known >= set(task.classes) and len(task.labels) > 1

    def _answers(self, x: Tensor) -> Tensor:
        """Classes, int64, N, by the first domain's prototypes."""
        return torch.tensor(self.classes, device=self.device)[self._domain_classifier(0)(x).argmax(1)]

    def _classifier(self) -> BatchClassifier:
        """In the domain of the nearest class mean, the nearest prototype behind the layer."""
        return self.domains.classifier(self.prototypes, self._domain_classifier)

    def _domain_classifier(self, home: int) -> BatchClassifier:
        """By the prototypes of the domain `home`; what the layer whitens is known of the first domain alone."""
        own, classes = self.prototypes.of(home), torch.tensor(self.classes, device=self.device)
        layer = self.layer if home == 0 else self.layer.isotropic()
        temperature = best_temperature(self.calibration) if self.calibration.any() else 1.0
        # What the distance to every prototype has in common drops out of the softmax: one matrix product is left.
        centre = own.mean.mean(0)
        apart = layer.times(own.mean - centre)
        weight = layer.transposed_times(apart) / temperature
        bias = self.config.shrink * apart.square().sum(1) / 2 / temperature

        def read(features: Tensor) -> Tensor:
            return class_probabilities(((features - centre) @ weight.T - bias).softmax(1), own.classes, classes)

        return read

    def latent_prototypes(self) -> tuple[Tensor, Tensor]:
        """Behind the layer: the means of the first domain's prototypes, K x D, and their common covariance, D x D."""
        layer = self.layer.dense()
        return self.prototypes.of(0).mean @ layer.T, layer @ self.prototypes.covariance().dense() @ layer.T

    def latent(self) -> LatentSpace:
        """Behind the layer; the prototypes of the first domain, whose variances are common to all."""
        means, covariance = self.latent_prototypes()
        variances = covariance.diagonal().expand_as(means)
        return LatentSpace(means, variances, self.prototypes.of(0).classes, self.layer.times)

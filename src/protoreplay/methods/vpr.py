"""Variational prototypes on a body that is made once and frozen; their replay has a closed form, so nothing is trained.

The body turns an image into features and never changes after the first task. A class is a Gaussian among them: a mean
of its own and the covariance that all classes share. A linear head trained on endless samples of these Gaussians would
become the linear discriminant that is computed here (docs/methods/vpr.md).
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
from protoreplay.methods.vpr_calibration import TEMPERATURES, TaughtImages, best_temperature, left_out_losses
from protoreplay.methods.vpr_domains import Domains, aligned_is_better, aligned_order
from protoreplay.methods.vpr_features import VPROnFeatures
from protoreplay.methods.vpr_prototypes import VPRPrototypes, doubles, means_by_label
from protoreplay.prototypes.closed_form import ClosedFormHead, symmetric_whitening
from protoreplay.prototypes.covariance import CovarianceKind, SharedCovariance
from protoreplay.prototypes.distances import clusters
from protoreplay.prototypes.gaussians import class_probabilities
from protoreplay.streams.stream import Task

KINDS: dict[str, CovarianceKind] = {"covariance": "full", "variances": "diagonal", "none": "identity"}


class VPRConfig(DictionarySettings, AugmentationSettings):
    """Settings of VPR; all of them ours, chosen on validation streams."""

    body: Literal["dictionary", "pixels"] = "dictionary"
    """Feature extractor: a dictionary of patches of the first task's images, or square roots of pixels for images whose
    pixels are permuted."""
    views: int = Field(200, ge=1)
    """Number of views per class: its images and augmented copies of all of them. A prototype is the midpoint between
    the mean of the images and the mean of all views."""
    augment_shift: int = Field(4, ge=0)
    """Shift of views, up to this many pixels in each direction; the border is filled by reflection."""
    augment_colour: float = Field(0.8, ge=0, le=1)
    """Maximum relative change of brightness, contrast and, in colour images, saturation of views."""
    augment_hue: float = Field(0.6, ge=0, le=math.pi)
    """Maximum hue rotation of views, in radians."""
    augment_erase: float = Field(0.2, ge=0, le=1)
    """Side of a randomly placed grey square in each view, as a fraction of the image's side."""
    prototypes: Annotated[int, Field(ge=1)] | Literal["sqrt"] = 1
    """Number of prototypes per class and task, or `sqrt`: the square root of its number of images."""
    weighting: Literal["covariance", "variances", "none"] = "covariance"
    """Within-class variation that distances take into account: the full covariance, only the variances, or none."""
    few: float = Field(100.0, ge=0)
    """Number of images per class at which the covariance of the images and that of an image's views weigh the same:
    with n images, theirs has the weight n / (n + few)."""
    # Below this, what 32 bits round off the scatter could leave a covariance that has no inverse.
    ridge: float = Field(0.7, ge=1e-4)
    """Ridge added to the covariance, in multiples of its mean eigenvalue."""
    shrink: float = Field(0.7, gt=0, le=1)
    """Factor that shrinks prototypes towards their common centre, because means of few images lie too far out."""
    domains: Literal["aligned", "own"] = "aligned"
    """Treatment of classes that return in a new domain: separate prototypes, or the old ones with inputs reordered to
    fit them, if that is better on held-out halves of the task's images. Only `pixels` can be reordered."""


class VPR(Method[VPRConfig]):
    """A frozen body, and the prototypes of all classes among its features.

    Tasks that bring new classes extend the first *domain*. A task that brings classes back opens another one, with
    prototypes of its own, or with an order in which its inputs are those of the first domain.
    """

    Config = VPRConfig
    frozen = True
    on_features = VPROnFeatures
    summary = "variational prototypes on a frozen body; replay in closed form"

    def __init__(self, config: VPRConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        body = (
            RootPixels(context.image_shape) if config.body == "pixels" else PatchDictionary(context.image_shape, config)
        )
        self.body, width = self.carry("body", body.to(self.device)), body.width
        nothing = VPRPrototypes.none(width, config.weighting == "covariance", self.device)
        self.prototypes = self.carry("prototypes", nothing)
        self.domains = self.carry("domains", Domains.first(width, self.device))
        self.calibration = self.carry("calibration", torch.zeros(len(TEMPERATURES)))
        """Loss, at each temperature, of all images so far, each left out of what was learned."""

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
            self._extend(task, images, random)
        else:
            self._open_domain(task, self.embed(images), random)

    def _extend(self, task: Task, images: Tensor, random: torch.Generator) -> None:
        """Add prototypes of the task's classes to the first domain, and ask its images, each left out of them."""
        taught = []
        for label in task.classes:
            own = images[(task.labels == label).to(self.device)]
            views = self.embed(self._views(own, random)).unflatten(0, (-1, len(own)))
            centres = (views.mean(0) + views[0]) / 2
            means, nearest = clusters(centres, self._prototypes_of_class(len(own)), random)
            apart, weight = centres - means[nearest], len(views) * len(own) / (len(own) + self.config.few)
            count = len(views) * nearest.bincount(minlength=len(means))
            within = torch.cat([(views - views.mean(0)).flatten(0, 1), math.sqrt(weight) * apart])
            self.prototypes = self.prototypes.plus(means, count, label, 0).plus_scatter(within)
            taught.append(TaughtImages.of(label, views, apart, weight))
        covariance = self.prototypes.covariance
        inverse = covariance.inverse(self._ridge(covariance), KINDS[self.config.weighting])
        losses = left_out_losses(taught, self.prototypes.of(0), inverse, self.config.shrink)
        if losses is not None:
            self.calibration = self.calibration + losses

    def _views(self, images: Tensor, random: torch.Generator) -> Tensor:
        """Views of one class's images, so many that there are `views` of the class: first the images themselves."""
        each = math.ceil(self.config.views / len(images))
        return torch.cat([images, augment(images.repeat(each - 1, 1, 1, 1), self.config, random)])

    def _prototypes_of_class(self, images: int) -> int:
        wanted = self.config.prototypes
        return math.isqrt(images) if wanted == "sqrt" else min(wanted, images)

    def _ridge(self, covariance: SharedCovariance) -> float:
        # Of images that do not vary at all, every direction counts alike.
        return self.config.ridge * (covariance.mean_eigenvalue() or 1.0)

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
        classify = self._domain_classifier(0, self.prototypes.covariance)
        return torch.tensor(self.classes, device=self.device)[classify(x).argmax(1)]

    def _classifier(self) -> BatchClassifier:
        """In the domain of the nearest class mean, the likeliest prototype."""
        covariance = self.prototypes.covariance
        return self.domains.classifier(self.prototypes, lambda home: self._domain_classifier(home, covariance))

    def _domain_classifier(self, home: int, covariance: SharedCovariance) -> BatchClassifier:
        """By the prototypes of the domain `home`; how features vary within classes is known of the first one alone."""
        own, classes = self.prototypes.of(home), torch.tensor(self.classes, device=self.device)
        inverse = covariance.inverse(self._ridge(covariance), KINDS[self.config.weighting] if home == 0 else "identity")
        head = ClosedFormHead.of(doubles(own.mean), inverse, self.config.shrink)
        temperature = best_temperature(self.calibration) if self.calibration.any() else 1.0
        centre, weight, bias = (torch.from_numpy(part).to(own.mean) for part in head)
        weight, bias = weight / temperature, bias / temperature

        def read(features: Tensor) -> Tensor:
            return class_probabilities(((features - centre) @ weight.T - bias).softmax(1), own.classes, classes)

        return read

    def latent(self) -> LatentSpace:
        """Where the covariance with its ridge is the identity; the prototypes of the first domain, variances common."""
        first, covariance = self.prototypes.of(0), self.prototypes.covariance
        whitening = symmetric_whitening(covariance, self._ridge(covariance), KINDS[self.config.weighting])
        scatter = whitening @ covariance.dense @ whitening
        matrix = torch.from_numpy(whitening).to(first.mean)
        variances = torch.from_numpy(scatter.diagonal() / covariance.freedom).to(first.mean)
        means = first.mean @ matrix
        return LatentSpace(means, variances.expand_as(means), first.classes, lambda x: x @ matrix)

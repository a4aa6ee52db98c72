"""Logistic regression on the features of all images so far, which it keeps: an upper reference, no continual learner.

After every task, the weights w and offsets b with the smallest

    1/2 |w|^2 + C * sum over all images of -log softmax(w f(x) + b)_y

are computed anew by scikit-learn. C is the one of a few with which held-out images are likeliest, in cross-validation
on the stored features.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from protoreplay.core.progress import StepCallback
from protoreplay.methods.base import BatchClassifier, MethodContext
from protoreplay.methods.fixed_features import FixedFeatureMethod, TrunkFeatureSettings
from protoreplay.streams.stream import Task

C_VALUES = (1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0, 1e4)
"""What C is chosen from."""


class LogisticConfig(TrunkFeatureSettings):
    """Settings of logistic regression on all features; all of them ours."""

    c: Annotated[float, Field(gt=0)] | Literal["cv"] = "cv"
    """C, the inverse strength of the penalty on the weights, or `cv`: chosen by cross-validation."""
    folds: int = Field(5, ge=2)
    """Number of cross-validation folds, stratified by class."""
    cv_images: int = Field(1000, ge=2)
    """Maximum number of images for cross-validation, drawn evenly from the classes."""


class AllFeatures(NamedTuple):
    """The features of all images so far, N x D, and their labels, int64, N."""

    rows: Tensor
    labels: Tensor


class LinearHead(NamedTuple):
    """Weights, C x D, and offsets, C, float64."""

    weight: Tensor
    offset: Tensor


class Logistic(FixedFeatureMethod[LogisticConfig]):
    """All features seen so far, and a logistic regression on them."""

    Config = LogisticConfig
    summary = "logistic regression on all features so far, which it keeps: an upper reference"
    search: ClassVar[Mapping[str, tuple[Any, ...]]] = {"c": ("cv", *C_VALUES)}
    keeps_means = False

    def __init__(self, config: LogisticConfig, context: MethodContext) -> None:
        super().__init__(config, context)
        nothing = torch.zeros(0, self.width, device=self.device), torch.zeros(0, dtype=torch.int64)
        self.stored = self.carry("stored", AllFeatures(*nothing))
        weight = torch.zeros(0, self.width, dtype=torch.float64)
        self.head = self.carry("head", LinearHead(weight, weight.sum(1)))

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Keep the features of the task's images, and fit all that is kept."""
        rows, labels = self.stored
        self.stored = AllFeatures(
            torch.cat([rows, self.embed(task.images)]), torch.cat([labels, task.labels.to(torch.int64)])
        )
        self.head = self._fitted()

    def _fitted(self) -> LinearHead:
        """The regression on all that is stored."""
        rows, columns = self.stored.rows.double().cpu(), self.columns(self.stored.labels).cpu()
        if len(self.classes) == 1:
            return LinearHead(rows.new_zeros(1, self.width), rows.new_zeros(1))
        # What no image has, the weights do not have either: fewer images than dimensions are turned into so many
        # coordinates, in which lengths and so the penalty stay what they are.
        basis = torch.eye(self.width, dtype=torch.float64)
        if len(rows) < self.width:
            basis = torch.linalg.qr(rows.T).Q.T
        rows = rows @ basis.T
        c = self._chosen_c(rows, columns) if self.config.c == "cv" else self.config.c
        weight, offset = fitted_head(rows, columns, c)
        return LinearHead(weight @ basis, offset)

    def _chosen_c(self, rows: Tensor, columns: Tensor) -> float:
        """The C with which images left out are likeliest; 1 where no class has two images."""
        drawn = even_draw(columns, self.config.cv_images, self.generator("cross-validation", len(columns)))
        rows, columns = rows[drawn], columns[drawn]
        fold = place_in_class(columns) % self.config.folds
        return max(C_VALUES, key=lambda c: (_left_out_likelihood(rows, columns, fold, c), -abs(np.log(c))))

    def _classifier(self) -> BatchClassifier:
        """Softmax of the scores."""
        weight, offset = (part.to(self.device, torch.float32) for part in self.head)
        return lambda features: (features @ weight.T + offset).softmax(1)


def fitted_head(rows: Tensor, columns: Tensor, c: float, tolerance: float = 1e-6) -> LinearHead:
    """scikit-learn's logistic regression of columns (int64, N, from 0 up, none left out) on rows, N x D, float64."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=c, tol=tolerance, max_iter=10_000).fit(rows.numpy(), columns.numpy())
    weight, offset = torch.from_numpy(model.coef_), torch.from_numpy(model.intercept_)
    if len(weight) == 1:  # of two classes it gives the second one's score alone
        weight, offset = torch.cat([torch.zeros_like(weight), weight]), torch.cat([torch.zeros_like(offset), offset])
    return LinearHead(weight, offset)


def place_in_class(columns: Tensor) -> Tensor:
    """For every row the number of rows of the same column before it (int64, N)."""
    member = torch.nn.functional.one_hot(columns)
    return (member.cumsum(0) * member).sum(1) - 1


def even_draw(columns: Tensor, count: int, random: torch.Generator) -> Tensor:
    """Rows (int64, at most `count`) in random order, classes by turns: of every class the first, then the second."""
    order = torch.randperm(len(columns), generator=random)
    return order[place_in_class(columns[order]).argsort(stable=True)][:count]


def _left_out_likelihood(rows: Tensor, columns: Tensor, fold: Tensor, c: float) -> float:
    """The mean log-likelihood of rows, each predicted without its fold; those of classes that are gone with it do not
    count."""
    total, count = 0.0, 0
    for number in fold.unique():
        known, place = columns[fold != number].unique(return_inverse=True)
        asked = (fold == number) & torch.isin(columns, known)
        if len(known) < 2 or not asked.any():
            continue
        weight, offset = fitted_head(rows[fold != number], place, c, tolerance=1e-3)
        logs = (rows[asked] @ weight.T + offset).log_softmax(1)
        total += float(logs.gather(1, torch.searchsorted(known, columns[asked])[:, None]).sum())
        count += int(asked.sum())
    return total / max(count, 1)

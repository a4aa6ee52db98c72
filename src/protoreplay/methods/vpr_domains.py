"""The domains of `vpr`: the first one, and one for every task that brought classes back.

A domain has prototypes of its own, or its *home* is the first one: then it has an order in which the dimensions of its
inputs are those of the first domain.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from protoreplay.methods.base import BatchClassifier
from protoreplay.methods.vpr_prototypes import VPRPrototypes, means_by_label
from protoreplay.prototypes.alignment import likeliest_order
from protoreplay.prototypes.distances import squared_distances


@dataclass(frozen=True)
class Domains:
    """All domains.

    Attributes:
        orders: int64, domains x D: of each dimension, which one of the inputs it is.
        homes: int64, domains: the domain whose prototypes each uses.
    """

    orders: Tensor
    homes: Tensor

    @classmethod
    def first(cls, width: int, device: torch.device) -> "Domains":
        """The first domain alone, of `width` dimensions."""
        return cls(torch.arange(width, device=device)[None], torch.zeros(1, dtype=torch.int64))

    def __len__(self) -> int:
        return len(self.homes)

    def plus_aligned(self, order: Tensor) -> "Domains":
        """With one that uses the first domain's prototypes in an order, int64, D."""
        return self._plus(order, 0)

    def plus_own(self) -> "Domains":
        """With one that has prototypes of its own."""
        return self._plus(self.orders[0], len(self))

    def _plus(self, order: Tensor, home: int) -> "Domains":
        return Domains(torch.cat([self.orders, order[None]]), torch.cat([self.homes, torch.tensor([home])]))

    def classifier(self, prototypes: VPRPrototypes, of_home: Callable[[int], BatchClassifier]) -> BatchClassifier:
        """Each image is classified in the domain of the nearest class mean, by the `BatchClassifier` of its home."""
        homes = self.homes.tolist()
        by_home = {home: of_home(home) for home in set(homes)}
        if len(homes) == 1:
            return by_home[0]
        nearest = self._nearest({home: prototypes.of(home).class_means()[1] for home in by_home})

        def read(features: Tensor) -> Tensor:
            domains = nearest(features)
            found = {
                domain: by_home[homes[domain]](features[domains == domain][:, self.orders[domain]])
                for domain in domains.unique().tolist()
            }
            result = features.new_zeros(len(features), next(iter(found.values())).shape[1])
            for domain, probabilities in found.items():
                result[domains == domain] = probabilities
            return result

        return read

    def _nearest(self, means: Mapping[int, Tensor]) -> Callable[[Tensor], Tensor]:
        """From features, N x D, to domains, int64, N; `means` are the class means of each home."""
        tables = [means[home][:, order.argsort()] for order, home in zip(self.orders, self.homes.tolist(), strict=True)]
        table, device = torch.cat(tables), self.orders.device
        sizes = torch.tensor([len(one) for one in tables], device=device)
        owners = torch.arange(len(tables), device=device).repeat_interleave(sizes)
        return lambda features: owners[squared_distances(features, table).argmin(1)]


def aligned_order(x: Tensor, labels: Tensor, prototypes: VPRPrototypes) -> Tensor:
    """The order, int64, D, in which x, N x D, has the dimensions of the first domain."""
    classes, means = prototypes.of(0).class_means()
    return likeliest_order(x, torch.searchsorted(classes, labels), means, prototypes.variances())


def aligned_is_better(
    x: Tensor,
    labels: Tensor,
    prototypes: VPRPrototypes,
    answers: Callable[[Tensor], Tensor],
    random: torch.Generator,
) -> bool:
    """Whether the first domain in another order answers for held-out images no worse than means of their own.

    Args:
        x: N x D, the new domain's features.
        labels: int64, N, all of classes of the first domain.
        prototypes: among them the first domain's.
        answers: from features in its order, M x D, to classes by the first domain, int64, M.
        random: draws the half that is not held out.
    """
    half = torch.randperm(len(x), generator=random).to(x.device) < len(x) // 2
    aligned = answers(x[~half][:, aligned_order(x[half], labels[half], prototypes)])
    present, means = means_by_label(x[half], labels[half])
    own = present[squared_distances(x[~half], means).argmin(1)]
    return bool((aligned == labels[~half]).sum() >= (own == labels[~half]).sum())

"""Adam, a step, and the state of an optimiser as named tensors."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def adam(network: nn.Module, lr: float) -> torch.optim.Adam:
    """Adam over all weights, without weight decay, in its one-pass form."""
    return torch.optim.Adam(network.parameters(), lr=lr, fused=True)


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
    """Change the weights so that the loss falls; returns the loss before."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def optimizer_tensors(optimizer: torch.optim.Optimizer, network: nn.Module) -> dict[str, Tensor]:
    """What the optimiser keeps of each weight, named `WEIGHT.KIND`; empty before its first step."""
    return {
        f"{name}.{kind}": tensor
        for name, weight in network.named_parameters()
        for kind, tensor in optimizer.state.get(weight, {}).items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`."""
    optimizer.state.clear()
    weights = dict(network.named_parameters())
    for name, tensor in tensors.items():
        weight, _, kind = name.rpartition(".")
        # A copy: the optimiser changes its state in place.
        optimizer.state[weights[weight]][kind] = tensor.to(weights[weight].device, copy=True)

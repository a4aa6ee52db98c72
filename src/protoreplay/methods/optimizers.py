"""Optimisers, and a step."""

from typing import Literal

import torch
from torch import Tensor, nn


def adam(network: nn.Module, lr: float) -> torch.optim.Adam:
    """Adam over all weights, without weight decay, in its one-pass form."""
    return torch.optim.Adam(network.parameters(), lr=lr, fused=True)


OptimizerName = Literal["sgd", "adam"]


def optimizer_of(name: OptimizerName, network: nn.Module, lr: float) -> torch.optim.Optimizer:
    """Plain stochastic gradient descent, without momentum or weight decay, or `adam`."""
    if name == "adam":
        return adam(network, lr)
    return torch.optim.SGD(network.parameters(), lr=lr, fused=True)


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
    """Change the weights so that the loss falls; returns the loss before."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()

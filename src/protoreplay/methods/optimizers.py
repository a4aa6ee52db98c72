"""Adam, and a step."""

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

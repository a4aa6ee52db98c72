"""Calls by which long work tells how far it is."""

from collections.abc import Callable

StepCallback = Callable[[int, int, float], None]
"""Called after each training step with its number from 1, the number of steps, and the loss."""


def ignore_steps(step: int, steps: int, loss: float) -> None:
    """A `StepCallback` that does nothing."""

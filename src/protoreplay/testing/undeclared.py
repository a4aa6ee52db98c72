"""What a method holds and does not show in its state."""

import types
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from protoreplay.methods.base import Method

TensorContent = tuple[str, tuple[int, ...], bytes]
"""Type, shape and bytes of a tensor or array."""


def undeclared(method: Method[Any]) -> list[str]:
    """Where a method holds numbers, in tensors or arrays, that its state does not have: names of its attributes.

    Each tensor of the state answers for one tensor. Buffers that a module does not save are passed over: they are
    constants, which it makes anew.
    """
    shown = Counter(_type_shape_bytes(tensor) for tensor in method.state().values())
    found = []
    for path, tensor in _reachable(method):
        content = _type_shape_bytes(tensor)
        if shown[content]:
            shown[content] -= 1
        elif content[2]:
            found.append(path)
    return found


def _type_shape_bytes(numbers: Tensor | np.ndarray[Any, Any]) -> TensorContent:
    plain = numbers.detach().cpu().reshape(-1).view(torch.uint8).numpy() if isinstance(numbers, Tensor) else numbers
    return str(numbers.dtype), tuple(numbers.shape), plain.tobytes()


def _reachable(method: Method[Any]) -> Iterator[tuple[str, Tensor | np.ndarray[Any, Any]]]:
    """Every tensor and array that can be reached from the method, once, and the way to it."""
    met = {id(None)}
    queue: list[tuple[str, Any]] = list(vars(method).items())
    while queue:
        path, value = queue.pop()
        if id(value) in met:
            continue
        met.add(id(value))
        if isinstance(value, Tensor | np.ndarray):
            yield path, value
        else:
            queue += [(f"{path}.{name}" if name else path, part) for name, part in _held_by(value)]


def _held_by(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, nn.Module):
        constants = value._non_persistent_buffers_set
        buffers = {name: buffer for name, buffer in value._buffers.items() if name not in constants}
        rest = {name: part for name, part in vars(value).items() if name not in ("_parameters", "_buffers", "_modules")}
        return [*(value._parameters | buffers | value._modules).items(), *rest.items()]
    if isinstance(value, Mapping):
        return [(str(key), part) for key, part in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return [(str(place), part) for place, part in enumerate(value)]
    if getattr(value, "__closure__", None):
        return [("", cell.cell_contents) for cell in value.__closure__ if cell != types.CellType()]
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        return []
    return list(vars(value).items())

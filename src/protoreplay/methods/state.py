"""What a method carries from task to task, as named tensors and back.

A carried value is a tensor, a whole number, a mapping of tensors, a module, an optimiser, a dataclass or named tuple of
such values, or a list of such values, all of one kind.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


@dataclasses.dataclass(frozen=True)
class LedgerItem:
    """One kind of thing that is carried from task to task."""

    name: str
    numbers: int
    bytes: int


def flatten(value: Any) -> dict[str, Tensor]:
    """The tensors of a carried value by name, parts separated by dots; a value of one tensor has the name ''."""
    if isinstance(value, Tensor):
        return {"": value}
    if isinstance(value, int):
        return {"": torch.tensor(value)}
    if isinstance(value, nn.Module):
        return value.state_dict()
    if isinstance(value, torch.optim.Optimizer):
        return _optimizer_tensors(value)
    return {
        join(name, inner): tensor for name, part in _parts(value).items() for inner, tensor in flatten(part).items()
    }


def rebuild(template: Any, tensors: Mapping[str, Tensor], element: Any = None) -> Any:
    """The value whose `flatten` gave `tensors`, like `template`: of its type, and on its device.

    A module or an optimiser is changed and returned; anything else is made anew, from copies.

    Args:
        template: a value of the same kind.
        tensors: by name.
        element: of lists, an element like those wanted.
    """
    if isinstance(template, Tensor):
        return tensors[""].to(template.device, copy=True)
    if isinstance(template, int):
        return int(tensors[""])
    if isinstance(template, nn.Module):
        template.load_state_dict(dict(tensors))
        return template
    if isinstance(template, torch.optim.Optimizer):
        _load_optimizer(template, tensors)
        return template
    groups: dict[str, dict[str, Tensor]] = {}
    if isinstance(template, list):
        for name, tensor in tensors.items():
            place, _, inner = name.partition(".")
            groups.setdefault(place, {})[inner] = tensor
        return [rebuild(element, groups[place]) for place in sorted(groups, key=int)]
    if isinstance(template, Mapping):
        return {name: rebuild(template[name], {"": tensor}) for name, tensor in tensors.items()}
    parts = {name: rebuild(part, under(name, tensors)) for name, part in _parts(template).items()}
    return type(template)(**parts)


def _parts(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()  # type: ignore[no-any-return]
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list):
        return {str(place): part for place, part in enumerate(value, start=1)}
    raise TypeError(f"a {type(value).__name__} cannot be carried from task to task")


def join(name: str, inner: str) -> str:
    """`name.inner`, or `name` where there is nothing inside."""
    return f"{name}.{inner}" if inner else name


def under(name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The entries called `name` or `name.*`, without that."""
    found = {key.removeprefix(f"{name}."): tensor for key, tensor in tensors.items() if key.startswith(f"{name}.")}
    return found | ({"": tensors[name]} if name in tensors else {})


def _weights(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimiser keeps of each weight, as `NUMBER.KIND`; empty before its first step."""
    return {
        f"{number}.{kind}": tensor
        for number, weight in enumerate(_weights(optimizer))
        for kind, tensor in optimizer.state.get(weight, {}).items()
        if isinstance(tensor, Tensor)
    }


def _load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    optimizer.state.clear()
    weights = _weights(optimizer)
    for name, tensor in tensors.items():
        number, _, kind = name.partition(".")
        weight = weights[int(number)]
        # A copy: the optimiser changes its state in place.
        optimizer.state[weight][kind] = tensor.to(weight.device, copy=True)

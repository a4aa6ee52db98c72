"""What an unfinished run continues from: sealed, so that a flipped bit is noticed, and checked before it is used."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from protoreplay.core.checked_json import SCHEMA, checked_json, plain_json
from protoreplay.core.errors import UserError
from protoreplay.metrics.accuracy import Count

if TYPE_CHECKING:
    from torch import Tensor

    from protoreplay.methods.base import Method

SEAL = "protoreplay"


class DamagedCheckpointError(UserError):
    """A checkpoint that cannot be continued from, in one line."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands after a task.

    Attributes:
        position: of the last task written down; 0 before the first.
        counts: of all tasks up to there.
        state: of the method.
        answers: a text of whoever counts them.
    """

    position: int = 0
    counts: list[Count] = field(default_factory=list)
    state: Mapping[str, "Tensor"] = field(default_factory=dict)
    answers: str = ""


class _Said(BaseModel):
    """What the seal of a checkpoint says."""

    model_config = SCHEMA

    position: int
    counts: list[list[int]]
    answers: str
    sha256: dict[str, str]


class _Sealed(BaseModel):
    model_config = SCHEMA

    sha256: dict[str, str]


def sealed(tensors: Mapping[str, "Tensor"], about: Mapping[str, Any]) -> bytes:
    """safetensors with `about`, and the digests of that and of every tensor."""
    import safetensors.torch  # here, because those who only read finished runs do without PyTorch

    text = json.dumps({**about, "sha256": {name: tensor_digest(one) for name, one in sorted(tensors.items())}})
    return safetensors.torch.save(dict(tensors), {SEAL: f"{_hex_digest(text.encode())} {text}"})


def seal_of(content: bytes) -> str | None:
    """What `sealed` says of its tensors, as JSON; None where nothing was sealed, a `ValueError` for a broken seal."""
    length = int.from_bytes(content[:8], "little")
    entry = (plain_json(content[8 : 8 + length]).get("__metadata__") or {}).get(SEAL)
    if entry is None:
        return None
    digest, _, text = str(entry).partition(" ")
    if _hex_digest(text.encode()) != digest:
        raise ValueError("wrong bytes in its description")
    return text


def require_unbroken(tensors: Mapping[str, Any], seal: str) -> None:
    """A `ValueError` that names a tensor (or array) which is not as it was when it was sealed."""
    said = checked_json(seal, _Sealed).sha256
    for name in sorted(tensors.keys() | said.keys()):
        if name not in tensors or tensor_digest(tensors[name]) != said.get(name):
            raise ValueError(f"wrong bytes in {name}")


def tensor_digest(tensor: Any) -> str:
    """SHA-256 over kind of number, shape and bytes of a tensor or an array."""
    array = tensor if hasattr(tensor, "tobytes") else tensor.detach().cpu().contiguous().numpy()
    return _hex_digest(f"{array.dtype} {array.shape} ".encode() + array.tobytes())


def checkpoint_to_bytes(saved: Checkpoint) -> bytes:
    """The file."""
    about = {"position": saved.position, "counts": saved.counts, "answers": saved.answers}
    return sealed(saved.state, about)


def checkpoint_from_bytes(content: bytes, name: str) -> Checkpoint:
    """The checkpoint of a file; a `DamagedCheckpointError` where a bit of it is not as it was written."""
    import safetensors.torch

    try:
        state = safetensors.torch.load(content)
        seal = seal_of(content)
        if seal is None:
            raise ValueError("it has no digests")
        said = checked_json(seal, _Said)
        require_unbroken(state, seal)
        counts = [Count(*row) for row in said.counts]
        tested = [row[:2] for row in counts if row.tested <= row.trained]
        number = said.position
        # First how many: a number of tasks may be anything, and the list of them as long.
        if not 2 * len(tested) == number * (number + 1) > 0 or tested != [
            (i, j) for i in range(1, number + 1) for j in range(1, i + 1)
        ]:
            raise ValueError("its counts are not those of its tasks")
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedCheckpointError(f"{name} is damaged ({error})") from None
    return Checkpoint(said.position, counts, state, said.answers)


def check_state(method: "Method[Any]", saved: Mapping[str, "Tensor"], name: str) -> None:
    """A `DamagedCheckpointError` unless names, shapes and kinds of all tensors go with a method as it was made.

    An optimiser with a smaller tensor of its own would take the process down.
    """
    # Not a part of `Method`: it changes no result, and a run's source is known by a digest of what stands there.
    try:
        for problem in _mismatches(method, saved):
            raise DamagedCheckpointError(f"{name} is damaged ({problem})")
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise DamagedCheckpointError(f"{name} is damaged ({type(error).__name__}: {error})") from None


def _mismatches(method: "Method[Any]", saved: Mapping[str, "Tensor"]) -> Iterator[str]:
    from protoreplay.methods.state import under

    carried = method._carried
    known = {"classes", *carried}
    yield from (f"{name} is not carried" for name in saved if name.partition(".")[0] not in known)
    classes = saved["classes"].tolist()
    if str(saved["classes"].dtype) != "torch.int64" or saved["classes"].ndim != 1:
        yield "classes are not labels"
    if classes != sorted(set(classes)) or any(not 0 <= label < method.context.num_classes for label in classes):
        yield "classes are not labels"
    for name, element in carried.items():
        yield from (f"{name}: {one}" for one in _unlike(getattr(method, name), under(name, saved), element))


def _unlike(template: Any, tensors: Mapping[str, "Tensor"], element: Any = None) -> Iterator[str]:
    """What of saved tensors cannot be a value like `template`, as `protoreplay.methods.state.rebuild` makes one."""
    import torch

    from protoreplay.methods.state import _parts, flatten, under

    if isinstance(template, torch.optim.Optimizer):
        yield from _unlike_optimizer(template, tensors)
    elif isinstance(template, torch.nn.Module):
        yield from _different(flatten(template), tensors)
    elif isinstance(template, list):
        places = sorted({name.partition(".")[0] for name in tensors}, key=int)
        if places != [str(place) for place in range(1, len(places) + 1)]:
            yield f"places {places}"
        for place in places:
            yield from _unlike(element, under(place, tensors))
    elif isinstance(template, torch.Tensor | int):
        if set(tensors) != {""}:
            yield f"not one tensor but {len(tensors)}"
        elif not _can_become(flatten(template)[""], tensors[""]):
            yield f"{tensors[''].dtype} {tuple(tensors[''].shape)}"
    elif isinstance(template, Mapping):
        yield from _different(template, tensors)
    else:
        parts = _parts(template)
        if {name.partition(".")[0] for name in tensors} - parts.keys():
            yield f"parts {sorted(tensors)}"
        for name, part in parts.items():
            yield from (f"{name}: {one}" for one in _unlike(part, under(name, tensors)))


def _different(expected: Mapping[str, "Tensor"], tensors: Mapping[str, "Tensor"]) -> Iterator[str]:
    """Where two sets of tensors differ in a name, a kind of number, or a shape."""
    for name in sorted(expected.keys() | tensors.keys()):
        one, other = expected.get(name), tensors.get(name)
        if one is None or other is None or (one.dtype, one.shape) != (other.dtype, other.shape):
            yield name


def _can_become(template: "Tensor", saved: "Tensor") -> bool:
    """Whether a tensor may have grown to be another: where there was nothing yet, or along its first dimension."""
    if template.dtype != saved.dtype or template.ndim != saved.ndim:
        return False
    sides = list(zip(template.shape, saved.shape, strict=True))
    return all(new == old or not old or (place == 0 and new > old) for place, (old, new) in enumerate(sides))


_LIKE_WEIGHT = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg", "grad_avg")
"""What PyTorch's optimisers keep of a weight, in its shape."""


def _unlike_optimizer(optimizer: Any, tensors: Mapping[str, "Tensor"]) -> Iterator[str]:
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    kinds: dict[int, set[str]] = {}
    for name, tensor in tensors.items():
        number, _, kind = name.partition(".")
        weight = weights[int(number)]
        kinds.setdefault(int(number), set()).add(kind)
        if kind in _LIKE_WEIGHT and (tensor.dtype, tensor.shape) != (weight.dtype, weight.shape):
            yield f"{name}: {tensor.dtype} {tuple(tensor.shape)}"
        if kind == "step" and (tensor.numel() != 1 or not tensor.is_floating_point()):
            yield f"{name}: {tensor.dtype} {tuple(tensor.shape)}"
    # A weight that was trained has all of them: the fused optimisers take them for granted.
    if len(set(map(frozenset, kinds.values()))) > 1:
        yield "weights with different moments"
    if (
        kinds
        and type(optimizer).__name__.startswith("Adam")
        and not {"step", "exp_avg", "exp_avg_sq"} <= kinds[min(kinds)]
    ):
        yield f"moments {sorted(kinds[min(kinds)])}"


def _hex_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

"""Settings of methods for protocols: the published ones, and those chosen on validation images.

A method is named `NAME` (published settings) or `NAME@PRESET`.
"""

import functools
import json
from importlib import resources
from typing import Any

from protoreplay.core.errors import UserError, unknown_name
from protoreplay.streams.protocols import PermutedSettings, Protocol

PRESETS = ("published", "tuned")

# As published: learning rate / strength of permuted-mnist, split-cifar10, split-mini-imagenet.
_LEARNING_RATES = {"sgd": (1e-3, 1e-2, 1e-3)}
_STRENGTHS = {
    "l2": (0.02, 100, 100),
    "ewc": (120, 600, 600),
    "online-ewc": (250, 100, 100),
    "si": (10, 600, 600),
    "mas": (0.1, 1, 1),
}
# What validation streams chose for VPR. Digits are too small to be shifted, and not themselves when mirrored; where
# pixels come in any order there are no neighbours to look at.
_NO_VIEWS: dict[str, Any] = {
    "views": 1,
    "augment_shift": 0,
    "mirror": False,
    "augment_colour": 0.0,
    "augment_erase": 0.0,
}
_VPR_DIGITS: dict[str, Any] = {"patch": 4, "latent": 100, **_NO_VIEWS}
_VPR_MINI_IMAGENET: dict[str, Any] = {"latent": 900}
_VPR_ANY_ORDER: dict[str, Any] = {
    "body": "pixels",
    "prototypes": "sqrt",
    "few": 0.0,
    "ridge": 10.0,
    "shrink": 1.0,
    "steps": 0,
    **_NO_VIEWS,
}
_COLUMNS = ("permuted-mnist", "split-cifar10", "split-mini-imagenet")


def split_name(name: str) -> tuple[str, str]:
    """`ewc@tuned` as method and preset; without one it is `published`."""
    method, separator, preset = name.partition("@")
    if separator and preset not in PRESETS:
        raise unknown_name("preset", preset, list(PRESETS), f" in {name}")
    return method, preset or "published"


def preset_settings(method: str, preset: str, protocol: Protocol) -> dict[str, Any]:
    """What the preset says of a method on a protocol; of published settings, none means its own defaults."""
    if preset == "tuned":
        found = tuned().get(protocol.name, {}).get(method)
        if found is None:
            remedy = f"find them with `protoreplay tune {protocol.name} --method {method}`"
            raise UserError(f"there are no tuned settings of {method} for {protocol.name}: {remedy}")
        return dict(found["settings"])
    if method == "vpr":
        if isinstance(protocol.defaults, PermutedSettings):
            return dict(_VPR_ANY_ORDER)
        return {"digits": _VPR_DIGITS, "mini-imagenet": _VPR_MINI_IMAGENET}.get(protocol.data, {})
    if protocol.name not in _COLUMNS:
        return {}
    column = _COLUMNS.index(protocol.name)
    chosen: dict[str, Any] = {}
    if method in _LEARNING_RATES:
        chosen["lr"] = _LEARNING_RATES[method][column]
    if method in _STRENGTHS:
        chosen |= {"lr": 1e-4 if protocol.name == "permuted-mnist" else 1e-3, "strength": _STRENGTHS[method][column]}
    return chosen


@functools.cache
def tuned() -> dict[str, dict[str, dict[str, Any]]]:
    """By protocol and method: the settings found, and how they were found."""
    text = resources.files("protoreplay.methods").joinpath("tuned.json").read_text()
    parsed: dict[str, dict[str, dict[str, Any]]] = json.loads(text)
    return parsed

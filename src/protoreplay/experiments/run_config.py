"""What `config.json` says of a run: everything needed to repeat it, and what it was computed with."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from protoreplay.streams.stream_settings import EvaluationImages


class NamedSettings(BaseModel):
    """A protocol or a method: its name, and the values of all its settings."""

    model_config = ConfigDict(frozen=True)

    name: str
    settings: dict[str, Any]


class EncoderIdentity(BaseModel):
    """A frozen encoder: its name, and the fingerprint of all that its features depend on."""

    model_config = ConfigDict(frozen=True)

    name: str
    fingerprint: str


class RunIdentity(BaseModel):
    """What makes it this run and no other.

    Attributes:
        protocol: which stream.
        method: which method, with its preset (`ewc@tuned`) unless that is the published one.
        seed: of the draw and of the method.
        evaluation: on which images it is tested.
        known_classes: after each task, how many classes have been seen.
        encoder: which turned images into features on the way in; None where methods meet images.
    """

    # Whatever else a file of another version says is passed over.
    model_config = ConfigDict(frozen=True, extra="ignore")

    protocol: NamedSettings
    method: NamedSettings
    seed: int
    evaluation: EvaluationImages
    known_classes: tuple[int, ...]
    # Written down only where there is one: a run without it is the same run as before there was a choice.
    encoder: EncoderIdentity | None = Field(None, exclude_if=lambda encoder: encoder is None)

    @property
    def tasks(self) -> int:
        """How many there are."""
        return len(self.known_classes)

    def without_seed(self) -> dict[str, Any]:
        """What runs that differ in their seed alone have in common, ready for JSON."""
        return self.model_dump(mode="json", exclude={"seed", "versions"})

    def first_difference(self, other: "RunIdentity") -> tuple[str, Any, Any] | None:
        """The first setting, by its path such as `method.settings.lr`, that two runs differ in, and both values."""
        ours, theirs = ({**_flat(one.without_seed()), "seed": one.seed} for one in (self, other))
        for key in sorted(ours.keys() | theirs.keys()):
            if ours.get(key) != theirs.get(key):
                return key, ours.get(key), theirs.get(key)
        return None


class RunConfig(RunIdentity):
    """The content of `config.json`: which run it is, and the versions of all that its result may depend on."""

    versions: dict[str, str]

    @field_validator("versions")
    @classmethod
    def _computed_somewhere(cls, versions: dict[str, str]) -> dict[str, str]:
        """Runs of the first releases were all computed on the CPU and do not say so."""
        return {**versions, "device": versions.get("device", "cpu")}

    def to_json(self) -> bytes:
        """As it is written."""
        return (json.dumps(self.model_dump(mode="json"), indent=2) + "\n").encode()


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= _flat(item, f"{prefix}{key}.") if isinstance(item, Mapping) else {f"{prefix}{key}": item}
    return flat

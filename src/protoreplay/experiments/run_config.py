"""What `config.json` says of a run: everything needed to repeat it, and what it was computed with."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, field_validator
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from protoreplay.core.checked_json import PlainText
from protoreplay.core.source_digest import digest_of
from protoreplay.streams.stream_settings import EvaluationImages


class NamedSettings(BaseModel):
    """A protocol or a method: its name, and the values of all its settings."""

    model_config = ConfigDict(frozen=True)

    name: PlainText
    settings: dict[str, Any]


class EncoderIdentity(BaseModel):
    """A frozen encoder: its name, and the fingerprint of all that its features depend on."""

    model_config = ConfigDict(frozen=True)

    name: PlainText
    fingerprint: PlainText


class CodePart(BaseModel):
    """The source of a part of a run, such as its method.

    Attributes:
        roots: where it begins, as `protoreplay.core.source_digest.digest_of` takes it; none of what is in no file.
        digest: of all that is reached from there.
    """

    model_config = ConfigDict(frozen=True)

    roots: tuple[str, ...]
    digest: str


class TaskShots(TypedDict):
    """What `shots.json` says of a task, at least."""

    __pydantic_config__ = ConfigDict(extra="allow", strict=True)  # type: ignore[misc]

    task: int
    classes: list[int]
    train: list[int]
    sha256: str


class KeptItem(TypedDict):
    """As `protoreplay.methods.state.LedgerItem`."""

    __pydantic_config__ = ConfigDict(strict=True)  # type: ignore[misc]

    name: PlainText
    numbers: Annotated[int, Field(ge=0)]
    bytes: Annotated[int, Field(ge=0)]


class RunEvent(TypedDict):
    """What a line of `events.jsonl` says of a task, at least."""

    __pydantic_config__ = ConfigDict(strict=True)  # type: ignore[misc]

    task: Annotated[int, Field(ge=1)]
    learn_seconds: Annotated[FiniteFloat, Field(ge=0)]
    test_seconds: Annotated[FiniteFloat, Field(ge=0)]
    kept: list[KeptItem]


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
    known_classes: tuple[Annotated[int, Field(ge=0, le=2**31)], ...]
    # Written down only where there is one: a run without it is the same run as before there was a choice.
    encoder: EncoderIdentity | None = Field(None, exclude_if=lambda encoder: encoder is None)

    @property
    def tasks(self) -> int:
        """How many there are."""
        return len(self.known_classes)

    def without_seed(self) -> dict[str, Any]:
        """What runs that differ in their seed alone have in common, ready for JSON."""
        return self.model_dump(mode="json", exclude={"seed", "versions", "commit", "code"})

    def first_difference(
        self, other: "RunIdentity", defaults: Mapping[str, Any] | None = None
    ) -> tuple[str, Any, Any] | None:
        """The first setting, by its path such as `method.settings.lr`, that two runs differ in, and both values.

        What one of them does not say, because it is older than the setting, has the value of `defaults`, by its path.
        """
        ours, theirs = ({**(defaults or {}), **_flat(one.without_seed()), "seed": one.seed} for one in (self, other))
        for key in sorted(ours.keys() | theirs.keys()):
            if ours.get(key) != theirs.get(key):
                return key, ours.get(key), theirs.get(key)
        return None


class RunConfig(RunIdentity):
    """The content of `config.json`: which run it is, and the versions of all that its result may depend on.

    Attributes:
        versions: of this package, of others, and the device.
        commit: of the git checkout that the package was used from; empty where it was installed.
        code: the source of method, encoder and protocol; runs of before it was recorded have none.
    """

    versions: dict[str, str]
    # Written down only where they are known.
    commit: str = Field("", exclude_if=lambda commit: not commit)
    code: dict[str, CodePart] = Field({}, exclude_if=lambda code: not code)

    @field_validator("versions")
    @classmethod
    def _computed_somewhere(cls, versions: dict[str, str]) -> dict[str, str]:
        """Runs of the first releases were all computed on the CPU and do not say so."""
        return {**versions, "device": versions.get("device", "cpu")}

    def other_code(self, code: Mapping[str, CodePart]) -> list[str]:
        """The parts, such as `method`, whose source was another than that of `code`; unknown ones are passed over."""
        return [name for name, part in self.code.items() if name in code and code[name].digest != part.digest]

    def outdated_code(self) -> list[str]:
        """The parts whose source is another by now; what is in no file, or in one that is gone, is passed over."""
        return [name for name, part in self.code.items() if digest_of(part.roots) not in (None, part.digest)]

    def computed_alike(self, other: "RunConfig") -> bool:
        """Whether it is the same run, by the same versions and the same source, of whatever commit."""
        return self.model_copy(update={"commit": other.commit}) == other

    def to_json(self) -> bytes:
        """As it is written."""
        return (json.dumps(self.model_dump(mode="json"), indent=2) + "\n").encode()


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= _flat(item, f"{prefix}{key}.") if isinstance(item, Mapping) else {f"{prefix}{key}": item}
    return flat

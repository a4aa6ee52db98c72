"""Settings of methods for protocols: the published ones, and those chosen on validation images.

They stand in `presets.json`, each entry with where its values come from. A method is named `NAME` (published settings,
or ours where nothing was published), `NAME@PRESET`, or `NAME@FILE.json` with settings of a file of one's own: what
`protoreplay tune --store FILE.json` wrote, or an object of settings.
"""

import functools
import json
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, TypeAdapter, model_validator

from protoreplay.core.errors import UserError, unknown_name
from protoreplay.core.registry import is_in_file
from protoreplay.encoders.dictionary import DictionarySettings
from protoreplay.streams.protocols import Protocol

PRESETS = ("published", "tuned", "text", "authors")
"""What a name may ask for; `ours` are entries of methods for which nothing was published, and stand in for these. Of
`vpr-paper`, `text` is the optimiser that the paper's text names, and `authors` are the choices of its released code."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TuningRecord(_Record):
    """How settings were found.

    Attributes:
        command: which finds them again.
        tasks: how many tasks the validation streams had.
        seeds: how many validation streams there were.
        validation_avg: average accuracy in percent that they reached on validation images.
        tried: the values that were tried, by setting.
        fixed: settings of the method or the protocol that all trials had, and that are not its own defaults.
    """

    command: str
    tasks: int
    seeds: int
    validation_avg: float
    tried: dict[str, list[Any]]
    fixed: dict[str, Any]


class PresetEntry(_Record):
    """Settings of one method for some protocols: for one by its name, or for all of a dataset, of a kind, or of both.

    Attributes:
        preset: published with the paper, ours, found by `protoreplay tune`, or another of `PRESETS`.
        method: its name in the registry.
        protocol: the only one that the entry is for.
        dataset: the name of the data of those that it is for.
        kind: of those that it is for.
        settings: those that differ from the method's own.
        source: where the values come from: a sentence, or how they were tuned.
    """

    preset: Literal["published", "ours", "tuned", "text", "authors"]
    method: str
    protocol: str | None = None
    dataset: str | None = None
    kind: Literal["incremental class", "incremental domain"] | None = None
    settings: dict[str, Any]
    source: str | TuningRecord

    @model_validator(mode="after")
    def _says_for_which_protocols(self) -> Self:
        if (self.protocol is None) == (self.dataset is None and self.kind is None):
            raise ValueError("an entry is for one protocol, or for those of a dataset, a kind, or both")
        return self

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Preset, method, and the protocols it is for: no two entries have the same."""
        return self.preset, self.method, self.protocol or "", self.dataset or "", self.kind or ""

    @property
    def specificity(self) -> tuple[bool, bool, bool]:
        """The greater, the more narrowly it says for which protocols it is."""
        return self.protocol is not None, self.dataset is not None, self.kind is not None

    def is_for(self, method: str, preset: str, protocol: Protocol) -> bool:
        """Whether all that it asks for is so."""
        narrowed = ((self.protocol, protocol.name), (self.dataset, protocol.data), (self.kind, protocol.kind))
        fits = all(asked in (None, found) for asked, found in narrowed)
        return (
            self.method == method and fits and self.preset in ((preset, "ours") if preset == "published" else (preset,))
        )


_ENTRIES = TypeAdapter(list[PresetEntry])


def split_name(name: str) -> tuple[str, str]:
    """`ewc@tuned` as method and preset; without one it is `published`."""
    method, separator, preset = name.rpartition("@")
    if not separator or is_in_file(preset):  # the path of a file may have an @ in it
        return name, "published"
    if preset not in PRESETS and not preset.endswith(".json"):
        raise unknown_name("preset", preset, PRESETS, f" in {name}", ["FILE.json"])
    return method, preset


def preset_settings(method: str, preset: str, protocol: Protocol) -> dict[str, Any]:
    """What the preset says of a method on a protocol; of published settings, none means its own defaults.

    Where several entries are for it, the most specific one says it: that of the protocol's name before those of its
    dataset, and these before those of its kind.
    """
    if preset.endswith(".json"):
        return _settings_of_file(method, Path(preset), protocol)
    found = [entry for entry in preset_entries() if entry.is_for(method, preset, protocol)]
    if found:
        return dict(max(found, key=lambda entry: entry.specificity).settings)
    if preset == "tuned":
        remedy = f"find them with `protoreplay tune {protocol.name} --method {method}`"
        raise UserError(f"there are no tuned settings of {method} for {protocol.name}: {remedy}")
    if preset != "published":
        raise UserError(f"{method} has no preset {preset} for {protocol.name}")
    return {}


def dictionary_features(protocol: Protocol) -> dict[str, Any]:
    """What makes `features=dictionary` the dictionary that `vpr` has on a protocol."""
    stored = preset_settings("vpr", "published", protocol)
    return {f"dictionary_{key}": value for key, value in stored.items() if key in DictionarySettings.model_fields}


def _settings_of_file(method: str, path: Path, protocol: Protocol) -> dict[str, Any]:
    """What a file of the user's says of a method on a protocol: one that `dump_presets` wrote, or all settings."""
    try:
        text = path.read_text(encoding="utf-8")
        if isinstance(said := json.loads(text), dict):
            return said
        entries = parse_presets(text)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise UserError(
            f"{path} is neither a file of presets, as `protoreplay tune --store` writes it, nor an object of settings"
        ) from None
    kinds = {entry.preset for entry in entries}
    found = [entry for entry in entries if any(entry.is_for(method, kind, protocol) for kind in kinds)]
    if not found:
        has = ", ".join(f"{entry.method} on {entry.protocol or entry.dataset or entry.kind}" for entry in entries)
        raise UserError(f"{path} says nothing of {method} on {protocol.name}; it has {has or 'nothing'}")
    return dict(max(found, key=lambda entry: (entry.specificity, entry.preset == "tuned")).settings)


@functools.cache
def preset_entries() -> tuple[PresetEntry, ...]:
    """All that the package knows."""
    return tuple(parse_presets(resources.files("protoreplay.methods").joinpath("presets.json").read_text()))


def parse_presets(text: str) -> list[PresetEntry]:
    """The entries of a file of presets; a `ValueError` for what is none, or stands there twice."""
    found = _ENTRIES.validate_json(text)
    keys = [entry.key for entry in found]
    twice = {key for key in keys if keys.count(key) > 1}
    if twice:
        raise ValueError(f"there is more than one entry for {', '.join(sorted(map(str, twice)))}")
    return found


def dump_presets(known: Iterable[PresetEntry], new: PresetEntry | None = None) -> str:
    """The text of a file of presets, in order; `new` takes the place of the entry for the same, if there is one."""
    by_key = {entry.key: entry for entry in (*known, *([new] if new else []))}
    blocks = []
    for _, entry in sorted(by_key.items()):
        fields = entry.model_dump(exclude_none=True).items()
        lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in fields)
        blocks.append(f"  {{\n{lines}\n  }}")
    return "[\n" + ",\n".join(blocks) + "\n]\n"

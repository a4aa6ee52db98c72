"""Finds the runs in a folder that kept their prototypes."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protoreplay.core.errors import UserError, unknown_name
from protoreplay.experiments import snapshots as kept
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.experiments.snapshots import PrototypeSnapshot
from protoreplay.streams import protocols
from protoreplay.streams.stream import Stream


@dataclass(frozen=True)
class KeptRun:
    """A finished run with its prototypes."""

    path: Path
    config: dict[str, Any]
    snapshots: list[PrototypeSnapshot]

    @property
    def seed(self) -> int:
        """Of the draw and of the method."""
        return int(self.config["seed"])

    def stream(self) -> Stream:
        """The stream it learned."""
        protocol = protocols.get_protocol(self.config["protocol"]["name"])
        settings = protocol.settings(self.config["protocol"]["settings"])
        return protocol.stream(self.seed, settings, self.config["evaluation"])


def find(root: Path, method: str | None = None) -> list[KeptRun]:
    """The finished runs of `method` under `root` that kept their prototypes, by seed; none is a `UserError`.

    Without `method`, those of the only method that kept any; that several did is a `UserError`.
    """
    if not root.is_dir():
        raise UserError(f"{root} is not a folder: give one that `protoreplay run` or `bench` wrote to")
    folders = [RunFolder(Path(place)) for place, _, files in os.walk(root) if "config.json" in files]
    if not folders:
        raise UserError(f"{root} holds no run: give a folder that `protoreplay run` or `bench` wrote to")
    configs = {folder: folder.config() for folder in folders}
    there = [folder for folder in folders if folder.finished() and kept.kept(folder)]
    if not there:
        raise UserError(f"{root} holds no finished run that kept its prototypes: do one with --keep-prototypes")
    names = {folder: str(configs[folder]["method"]["name"]) for folder in there}
    if method is None:
        method, *others = sorted({*names.values()})
        if others:
            raise UserError(f"{root} holds prototypes of {', '.join([method, *others])}: choose one with --method")
    chosen = [folder for folder in there if names[folder] == method]
    if not chosen:
        raise unknown_name(
            "method", method, sorted({*names.values()}), f" among the runs of {root} that kept prototypes"
        )
    if len({_identity(configs[folder]) for folder in chosen}) > 1:
        raise UserError(f"{root} holds {method} with several settings or protocols: give the folder of one of them")
    runs = [KeptRun(folder.path, configs[folder], kept.load(folder)) for folder in chosen]
    return sorted(runs, key=lambda run: run.seed)


def _identity(config: dict[str, Any]) -> str:
    return json.dumps([config["protocol"], config["method"], config["evaluation"]], sort_keys=True)

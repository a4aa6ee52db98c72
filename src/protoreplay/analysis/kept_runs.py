"""Finds the runs in a folder that kept their prototypes."""

from dataclasses import dataclass
from pathlib import Path

from protoreplay.core.errors import UserError, unknown_name
from protoreplay.experiments.run_config import RunConfig
from protoreplay.experiments.run_folder import find_run_folders
from protoreplay.experiments.snapshots import PrototypeSnapshot, has_snapshots, load_snapshots
from protoreplay.experiments.spec import dictionary_of
from protoreplay.streams import protocols
from protoreplay.streams.embedded import embedded
from protoreplay.streams.stream import Stream


@dataclass(frozen=True)
class KeptRun:
    """A finished run with its prototypes."""

    path: Path
    config: RunConfig
    snapshots: list[PrototypeSnapshot]

    @property
    def seed(self) -> int:
        """Of the draw and of the method."""
        return self.config.seed

    def stream(self) -> Stream:
        """The stream it learned."""
        protocol = protocols.get_protocol(self.config.protocol.name)
        stream = protocol.stream(self.seed, protocol.settings(self.config.protocol.settings), self.config.evaluation)
        encoder = self.config.encoder
        if encoder is None:
            return stream
        return embedded(stream, encoder.name, self.seed, dictionary_of(protocol), encoder.fingerprint)


def find_kept_runs(root: Path, method: str | None = None) -> list[KeptRun]:
    """The finished runs of `method` under `root` that kept their prototypes, by seed; none is a `UserError`.

    Without `method`, of the only one that kept any; that there are several is a `UserError` that lists them.
    """
    folders = find_run_folders(root)
    if not folders:
        raise UserError(f"{root} has no runs: give a folder that `protoreplay run` or `bench` wrote to")
    finished = [(folder, folder.finished_run()) for folder in folders]
    there = [(folder, run.config) for folder, run in finished if run and has_snapshots(folder)]
    if not there:
        raise UserError(f"{root} has no finished run with kept prototypes: run a method with --keep-prototypes")
    names = sorted({config.method.name for _, config in there})
    if method is None and len(names) > 1:
        raise UserError(f"{root} has prototypes of {', '.join(names)}: choose one with --method")
    method = method or names[0]
    if method not in names:
        raise unknown_name("method", method, names, f" among the runs of {root} that kept prototypes")
    chosen = [(folder, config) for folder, config in there if config.method.name == method]
    if any(config.without_seed() != chosen[0][1].without_seed() for _, config in chosen):
        raise UserError(f"{root} has {method} with several settings or protocols: give the folder of one of them")
    runs = [KeptRun(folder.path, config, load_snapshots(folder)) for folder, config in chosen]
    return sorted(runs, key=lambda run: run.seed)

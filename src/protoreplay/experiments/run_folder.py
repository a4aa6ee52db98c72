"""The folder a run lives in. Every file is written whole or not at all.

`config.json`, `shots.json`, `counts.csv` and `events.jsonl`; when it is finished `confusion.csv`, `calibration.csv` and
`top5.csv`; the folder `prototypes` where these are kept for analyses;
while the run is unfinished, `checkpoint.safetensors`, and `error.txt` where its last attempt failed.
"""

import contextlib
import csv
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import filelock

from protoreplay.core.checked_json import checked_json, checked_value, plain_json
from protoreplay.core.errors import UserError
from protoreplay.core.files import read_regular, write_whole
from protoreplay.core.locks import LOCK_MODE
from protoreplay.experiments.checkpoint import (
    Checkpoint,
    DamagedCheckpointError,
    checkpoint_from_bytes,
    checkpoint_to_bytes,
)
from protoreplay.experiments.run_config import RunConfig, RunEvent, RunIdentity, TaskShots
from protoreplay.metrics.accuracy import Count
from protoreplay.metrics.answer_metrics import ConfidenceBin, ConfusionCount

MOST_TEXT, MOST_BYTES = 2**28, 2**34
"""Of a text, and of a checkpoint, which may hold all training images."""

ANSWER_ROWS: dict[str, Callable[..., Any]] = {"confusion": ConfusionCount, "calibration": ConfidenceBin, "top5": Count}
"""The files, without their ending, that say more of the answers of a finished run, and what a row of each is."""
REDONE = ".redone"
"""Inside the folder of a finished run, where it is done again, until that is finished too."""


class RunBusyError(UserError):
    """Another process is at work on the run."""


class FinishedRun(NamedTuple):
    """What the folder of a finished run says first: which run it is, and its counts."""

    config: RunConfig
    counts: list[Count]


class RunFolder:
    """Reads and writes one run's folder; nothing is created before `locked`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._config = path / "config.json"
        self._shots = path / "shots.json"
        self._counts = path / "counts.csv"
        self._answers = {name: path / f"{name}.csv" for name in ANSWER_ROWS}
        self._events = path / "events.jsonl"
        self.checkpoint = path / "checkpoint.safetensors"
        self._error = path / "error.txt"
        self.prototypes = path / "prototypes"
        self._redone = path / REDONE

    def refuse_other_run(self, run: RunIdentity, defaults: Mapping[str, Any] | None = None) -> None:
        """A `UserError` unless the folder is new, empty, or holds this very run, whatever its versions.

        A setting that it does not say, because it is older than it, has the value of `defaults`, by its path.
        """
        foreign = (entry.name for entry in _entries(self.path) if entry != self._error)
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file: --out takes a folder")
        if not self._config.exists():
            if not all(name.startswith(".") for name in foreign):
                raise UserError(f"{self.path} holds files that are not of a run: --out takes a new or an empty folder")
            return
        if difference := self.config().first_difference(run, defaults):
            key, here, wanted = difference
            raise UserError(f"{self.path} holds a run with {key}={here}, not {wanted}: choose another --out")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and hold it against other processes; the lock of a killed process is free."""
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with filelock.FileLock(self.path / ".lock", timeout=0, mode=LOCK_MODE):
                for leftover in self.path.rglob(".*.tmp"):
                    leftover.unlink()
                yield
        except filelock.Timeout:
            raise RunBusyError(
                f"{self.path} is in use by another process: wait for it or choose another --out"
            ) from None

    def start(self, config: RunConfig, shots: list[dict[str, Any]]) -> None:
        """Begin anew: forget an earlier attempt, write the config, by which others know a run, then the draw."""
        self._forget()
        write_whole(self._config, config.to_json())
        write_whole(self._shots, json.dumps(shots).encode())

    def config(self) -> RunConfig:
        """The content of `config.json`."""
        try:
            return RunConfig.model_validate_json(read_regular(self._config, MOST_TEXT))
        except ValueError:
            raise UserError(f"{self._config} is not the configuration of a run") from None

    def shots(self) -> Any:
        """The content of `shots.json`, None where it is not there yet."""
        if not self._shots.exists():
            return None
        try:
            return checked_json(read_regular(self._shots, MOST_TEXT), list[TaskShots])
        except ValueError:
            raise UserError(f"{self._shots} is not the draw of a run") from None

    def exists(self) -> bool:
        """Whether a run has started here."""
        return self._config.exists()

    def counts(self) -> list[Count]:
        """The rows of `counts.csv`, none where it is not there yet."""
        try:
            header, *lines = read_regular(self._counts, MOST_TEXT).decode().splitlines()
            if tuple(header.split(",")) != Count._fields:
                raise ValueError(header)
            counts = [Count(*map(int, line.split(","))) for line in lines]
            if not all(row.trained >= 0 and row.tested >= 1 and 0 <= row.correct <= row.n >= 1 for row in counts):
                raise ValueError("numbers")
            return counts
        except FileNotFoundError:
            return []
        except (ValueError, TypeError):
            raise UserError(f"{self._counts} is not a table of trained,tested,n,correct") from None

    def finished_run(self) -> FinishedRun | None:
        """The run, if the counts of all its tasks are there; else None."""
        if not self.exists():
            return None
        config, counts = self.config(), self.counts()
        # Only what was tested after it was learned counts: there may be rows of tasks that were still to come.
        tested = sum(row.tested <= row.trained for row in counts)
        return FinishedRun(config, counts) if tested == config.tasks * (config.tasks + 1) // 2 else None

    def finished(self) -> bool:
        """Whether the counts of all tasks are there."""
        return self.finished_run() is not None

    def write_counts(self, counts: list[Count]) -> None:
        """Replace `counts.csv`."""
        _write_rows(self._counts, Count._fields, counts)

    def write_answers(self, tables: Mapping[str, Sequence[Any]]) -> None:
        """Write the files of `ANSWER_ROWS`, by name; before the last counts, which make the run a finished one."""
        for name, rows in tables.items():
            _write_rows(self._answers[name], _fields_of(name), rows)

    def answers(self, name: str) -> list[Any]:
        """The rows of one of `ANSWER_ROWS`; none where the run is older than they are."""
        path, make = self._answers[name], ANSWER_ROWS[name]
        try:
            header, *lines = read_regular(path, MOST_TEXT).decode().splitlines()
            if tuple(header.split(",")) != _fields_of(name):
                raise ValueError(header)
            rows = [tuple(float(x) if "." in x else int(x) for x in line.split(",")) for line in lines]
            if any(not 0 <= number < 2**53 for row in rows for number in row):
                raise ValueError("numbers")
            return [make(*row) for row in rows]
        except FileNotFoundError:
            return []
        except (ValueError, TypeError):
            raise UserError(f"{path} is not a table of {','.join(_fields_of(name))}") from None

    def append_events(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Add a line each to `events.jsonl`."""
        with self._events.open("ab") as file:
            file.write("".join(json.dumps(event) + "\n" for event in events).encode())
            file.flush()
            os.fsync(file.fileno())

    def has_events(self) -> bool:
        """Whether `events.jsonl` is there."""
        return self._events.exists()

    def events(self) -> list[dict[str, Any]]:
        """The whole lines of `events.jsonl`, none where it is not there yet; one cut off by a kill is passed over."""
        try:
            lines = read_regular(self._events, MOST_TEXT).splitlines(keepends=True)
            events = [plain_json(line) for line in lines if line.endswith(b"\n")]
            checked_value(events, list[RunEvent])
            return events
        except FileNotFoundError:
            return []
        except ValueError:
            raise UserError(f"{self._events} is not the events of a run") from None

    def save_checkpoint(self, saved: Checkpoint) -> None:
        """Everything needed to continue after a task."""
        write_whole(self.checkpoint, checkpoint_to_bytes(saved))

    def resume(self) -> Checkpoint:
        """What `save_checkpoint` wrote last, or where every run starts; events of tasks after it are dropped.

        A `DamagedCheckpointError` where a bit of it is not as it was written.
        """
        saved = Checkpoint()
        if self.checkpoint.exists():
            saved = checkpoint_from_bytes(read_regular(self.checkpoint, MOST_BYTES), str(self.checkpoint))
        try:
            there = self.events()
        except UserError as error:
            raise DamagedCheckpointError(str(error)) from None
        kept = [event for event in there if event["task"] <= saved.position]
        if kept or self._events.exists():
            write_whole(self._events, "".join(json.dumps(event) + "\n" for event in kept).encode())
        return saved

    def fail(self, error: str) -> None:
        """Record why the last attempt failed, unless the run is finished or taken up by another process."""
        with contextlib.suppress(RunBusyError), self.locked():
            if self.finished():
                self.clean()
            else:
                write_whole(self._error, error.encode())

    def contents(self) -> dict[str, bytes]:
        """Every file of a finished run by its path in the folder, for `adopt`."""
        paths = sorted((path.relative_to(self.path), path) for path in self.path.rglob("*") if path.is_file())
        return {
            name.as_posix(): path.read_bytes()
            for name, path in paths
            if not any(part.startswith(".") for part in name.parts)
        }

    def adopt(self, contents: Mapping[str, bytes]) -> None:
        """Take over a finished run from elsewhere in place of what is here; call it while the folder is locked."""
        self._forget()
        # The counts come last, because they make the run a finished one.
        for name in sorted(contents, key=lambda name: name == self._counts.name):
            path = self.path / name
            path.parent.mkdir(exist_ok=True)
            write_whole(path, contents[name])
        self.clean()

    def redone(self) -> "RunFolder":
        """Where a finished run is done again; `take_redone` puts it in the place of the old one."""
        return RunFolder(self._redone)

    def take_redone(self) -> None:
        """Put the run that was done again in the place of the old one; while the folder is locked."""
        self.adopt(self.redone().contents())
        self.drop_redone()

    def drop_redone(self) -> None:
        """Forget the run that was done again."""
        shutil.rmtree(self._redone)

    def _forget(self) -> None:
        for path in (self.checkpoint, self._counts, self._events, *self._answers.values(), *self.prototypes.glob("*")):
            path.unlink(missing_ok=True)

    def clean(self) -> None:
        """Remove what only an unfinished run needs; where there is none of it, the folder may be read-only."""
        for path in (self.checkpoint, self._error, self.path / ".lock"):
            if path.exists():
                path.unlink(missing_ok=True)


def _fields_of(name: str) -> tuple[str, ...]:
    fields: tuple[str, ...] = ANSWER_ROWS[name]._fields  # type: ignore[attr-defined]
    return fields


def _write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


def _entries(path: Path) -> list[Path]:
    return list(path.iterdir()) if path.is_dir() else []


def find_run_folders(root: Path) -> list[RunFolder]:
    """All run folders below `root`, by their paths; a `UserError` where it is no folder itself."""
    if not root.is_dir():
        raise UserError(f"{root} is not a folder: give one that `protoreplay run` or `bench` wrote to")
    places = sorted(Path(place) for place, _, files in os.walk(root) if "config.json" in files)
    return [RunFolder(path) for path in places if path.name != REDONE]


def seconds_of(events: Iterable[Mapping[str, Any]]) -> float:
    """Of learning and testing, all tasks together."""
    return sum((float(event["learn_seconds"] + event["test_seconds"]) for event in events), 0.0)

"""Options that several commands share, and how their values are parsed; heavy parts are imported when needed."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from protoreplay.core.errors import UserError, known_name

if TYPE_CHECKING:
    from protoreplay.experiments.grid import Engine
    from protoreplay.experiments.spec import OtherSource, RunSpec

ProtocolName = Annotated[
    str, typer.Argument(metavar="PROTOCOL", help="Protocol to run; `protoreplay protocols` lists them.")
]
OneMethod = Annotated[
    str, typer.Option("--method", metavar="NAME", help="Method from `protoreplay methods`, or your own: FILE.py:NAME.")
]
MethodNames = Annotated[
    str,
    typer.Option("--methods", metavar="A,B", help="Methods, separated by commas, or `all`; your own: FILE.py:NAME."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the protocol or the method. Can be repeated."),
]
Vary = Annotated[
    list[str] | None,
    typer.Option("--vary", metavar="KEY=A,B", help="Run every one of several values of a setting. Can be repeated."),
]
Seeds = Annotated[
    str,
    typer.Option(
        "--seeds",
        metavar="N|A-B|A,B",
        help="Number of seeds, counted from 0 (from 1000 with `--eval validation`), or the seeds: 100-104.",
    ),
]
EvalOn = Annotated[
    str,
    typer.Option(
        "--eval",
        metavar="test|validation",
        help="Evaluate on the test images, or on validation images held out of the training set.",
    ),
]
EncoderOption = Annotated[
    str,
    typer.Option(
        "--encoder",
        metavar="NAME",
        help="Frozen encoder whose features every method uses instead of images: a name from `protoreplay encoders`, "
        "FILE.onnx, timm:NAME or FILE.py:NAME.",
        show_default="none",
    ),
]
Device = Annotated[
    str, typer.Option(metavar="cpu|cuda|mps|auto", help="Device to compute on; `auto` picks the fastest available.")
]
Log = Annotated[str | None, typer.Option(metavar="tensorboard", help="Also log losses and accuracies to TensorBoard.")]
Jobs = Annotated[int, typer.Option(min=1, help="Number of worker processes, each with one thread.")]
KeepPrototypes = Annotated[
    bool, typer.Option("--keep-prototypes", help="Save what `protoreplay analyze` needs, for methods with prototypes.")
]
Redo = Annotated[
    bool, typer.Option("--redo", help="Repeat finished runs whose method, encoder or protocol has changed since.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep finished runs even if their source code has changed.")]
EngineName = Annotated[
    str, typer.Option("--engine", metavar="local|ray", help="Run on this machine or on a Ray cluster.")
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="auto|HOST:PORT|ray://...",
        help="Address of the Ray cluster.",
        show_default="start a local cluster with room for --jobs runs",
    ),
]
CpusPerRun = Annotated[float, typer.Option(min=0, help="CPUs that Ray reserves for each run.")]
GpusPerRun = Annotated[float, typer.Option(min=0, help="GPUs that Ray reserves for each run.")]
RunsFolders = Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of runs or of recorded results.")]
RunsFolder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of runs.")]

LARGEST_SETTING = 10_000_000
"""No number of steps, images or dimensions is larger; a slip of the finger would take all memory, or years."""
MOST_SEEDS = 100_000
"""Upper limit for one grid."""


def parse_pairs(overrides: list[str] | None, option: str = "--set", form: str = "KEY=VALUE") -> dict[str, str]:
    """`["tau=2", ...]` as a mapping."""
    parsed = {}
    for item in overrides or []:
        key, separator, value = item.partition("=")
        if not separator or not key:
            raise UserError(f"{option} {item}: write {form}")
        if value.isascii() and value.isdecimal() and (len(value) > 20 or int(value) > LARGEST_SETTING):
            raise UserError(f"{option} {key}={value[:20]}: at most {LARGEST_SETTING:,}")
        parsed[key] = value
    return parsed


def parse_varied(vary: list[str] | None) -> dict[str, list[str]]:
    """`["tau=1,2", ...]` as a mapping to lists."""
    varied = {key: text.split(",") for key, text in parse_pairs(vary, "--vary", "KEY=A,B").items()}
    for key, values in varied.items():
        for value in values:
            parse_pairs([f"{key}={value}"], "--vary")
        if not all(values):
            raise UserError(f"--vary {key}={','.join(values)}: write KEY=A,B")
    return varied


def parse_seeds(text: str, evaluation: Any) -> list[int]:
    """`5`: the first five; `100-104`, `7,9,20-22`: those; anything else is a `UserError`.

    Examples:
        >>> parse_seeds("3", "test"), parse_seeds("3", "validation"), parse_seeds("7,20-22", "test")
        ([0, 1, 2], [1000, 1001, 1002], [7, 20, 21, 22])
    """
    from protoreplay.experiments.spec import first_seeds

    wrong = UserError(f"--seeds {text[:40]}: write how many (5), a range (100-104) or a list (7,9,20-22)")
    ends = [part.split("-") for part in text.split(",")]
    if not all(
        len(end) <= 2 and all(word.isascii() and word.isdigit() and len(word) <= 20 for word in end) for end in ends
    ):
        raise wrong
    ranges = [(int(end[0]), int(end[-1])) for end in ends]
    alone = len(ranges) == 1 and len(ends[0]) == 1
    count = ranges[0][0] if alone else sum(last - first + 1 for first, last in ranges)
    if count < 1 or any(first > last for first, last in ranges):
        raise wrong
    if count > MOST_SEEDS:
        raise UserError(f"--seeds {text}: at most {MOST_SEEDS:,} seeds in one grid")
    if alone:
        return first_seeds(count, evaluation)
    return list(dict.fromkeys(seed for first, last in ranges for seed in range(first, last + 1)))


def parse_width(text: str) -> float:
    """A length in inches.

    Examples:
        >>> parse_width("3.3in"), round(parse_width("84mm"), 3), parse_width("252pt")
        (3.3, 3.307, 3.5)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(in|cm|mm|pt)", text)
    inches = float(found[1]) / {"in": 1, "cm": 2.54, "mm": 25.4, "pt": 72}[found[2]] if found else 0.0
    if not 1 <= inches <= 40:
        raise UserError(f"--width {text}: write a length of 1 to 40 inches, such as 3.3in, 8.4cm, 84mm or 240pt")
    return inches


def pick_engine(
    name: str, jobs: int, device: str = "cpu", address: str | None = None, cpus: float = 1.0, gpus: float = 0.0
) -> "Engine":
    """The engine that does the runs of a grid; a `UserError` for what this machine cannot do."""
    if known_name("engine", name, ["local", "ray"]) == "ray":
        from protoreplay.experiments.ray_cluster import Cluster

        return Cluster(address, jobs, cpus, gpus)
    if address or cpus != 1.0 or gpus:
        raise UserError("--address, --cpus-per-run and --gpus-per-run need --engine ray")
    from protoreplay.core.devices import pick_device
    from protoreplay.experiments.grid import in_this_process
    from protoreplay.experiments.workers import in_workers

    pick_device(device)
    return in_this_process if jobs == 1 else partial(in_workers, jobs=jobs)


def with_choice(specs: "list[RunSpec]", redo: bool, keep: bool) -> "list[RunSpec]":
    """The runs, with what happens to finished ones whose source code has changed."""
    choice = pick_other_source(redo, keep)
    return [replace(spec, other_source=choice) for spec in specs]


def pick_other_source(redo: bool, keep: bool) -> "OtherSource":
    """The choice that `--redo` and `--keep` make; both is a `UserError`."""
    if redo and keep:
        raise UserError("--redo and --keep exclude each other: give one of them")
    return "redo" if redo else "keep" if keep else "refuse"


def pick_log(name: str | None) -> str | None:
    """A log's name; an unknown one is a `UserError`."""
    from protoreplay.experiments.run import LOGS

    return None if name is None else known_name("log", name, LOGS)


def method_names(text: str, features: bool = False) -> list[str]:
    """`a,b@tuned` or `all` as names without repetition; on given features, `all` leaves out those with their own."""
    from protoreplay.methods.registry import METHODS

    every = [name for name, entry in METHODS.items() if not (features and "features" in entry.preset)]
    names = [name for word in text.split(",") for name in (every if word == "all" else [word])]
    return list(dict.fromkeys(names))


def pick_evaluation(value: str) -> Any:
    """`test` or `validation`; anything else is a `UserError`."""
    return known_name("--eval", value, ["test", "validation"])

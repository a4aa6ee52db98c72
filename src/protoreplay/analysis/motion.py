"""How prototypes moved in runs that kept them, one number a seed, as a small file that claims are held against."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from protoreplay.core.errors import UserError
from protoreplay.core.files import write_whole
from protoreplay.experiments.run_config import NamedSettings
from protoreplay.streams.stream_settings import EvaluationImages

MOTION_FILE = "motion.json"


class MotionRecord(BaseModel):
    """What `protoreplay analyze` found in the runs of one method.

    Attributes:
        protocol: which stream.
        method: which method, with its settings.
        evaluation: on which images it was tested.
        known_classes: after each task, how many classes had been seen.
        encoder: whose features say how alike classes look.
        outward: by seed, how much farther prototypes ended from the centre than they began, in percent.
        correlation: by seed, Pearson's r of looking alike and moving alike.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: NamedSettings
    method: NamedSettings
    evaluation: EvaluationImages
    known_classes: tuple[int, ...]
    encoder: str
    outward: dict[int, float]
    correlation: dict[int, float]


def write_motion(record: MotionRecord, folder: Path) -> Path:
    """Write the file into a folder, and return where it is."""
    path = folder / MOTION_FILE
    write_whole(path, (record.model_dump_json(indent=1) + "\n").encode())
    return path


def read_motion(folders: Iterable[Path]) -> MotionRecord | None:
    """Of the first of the folders that has such a file; a damaged one is a `UserError`."""
    for path in (folder / MOTION_FILE for folder in folders):
        if path.exists():
            try:
                return MotionRecord.model_validate_json(path.read_bytes())
            except ValidationError:
                raise UserError(f"{path} was not written by `protoreplay analyze`: run it again") from None
    return None

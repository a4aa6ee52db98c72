"""The one owner of a model that is served: readers take a snapshot, changes come one after the other."""

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from protoreplay.photos import modelfile
from protoreplay.photos.classifier import Classifier

T = TypeVar("T")
Stamp = tuple[int, int, int] | None


@dataclass(frozen=True)
class ModelRevision:
    """A state that was made public, and is never changed after that.

    Attributes:
        revision: number of changes since the server started.
        classifier: for reading only.
    """

    revision: int
    classifier: Classifier


class ServedModel:
    """Holds the classifier of a file.

    A change is made on a draft, the draft is saved, and only then it replaces `current`: a reader sees the old state or
    the new one, and what it sees is on disk.

    Args:
        path: the model's file; it is written at the first change.
        classifier: its state, or that of a new one.
        say: told when another process holds the file.
    """

    def __init__(self, path: Path, classifier: Classifier, say: Callable[[str], None] = print) -> None:
        """Take over a classifier; nobody else may change it from now on."""
        self.path = path
        self.current = ModelRevision(0, classifier)
        self._say = say
        self._writer = threading.Lock()
        self._written = _stamp(path)

    def change(self, work: Callable[[Classifier], T]) -> T:
        """Do `work` on the classifier; if it raises, nothing has changed."""
        with self._writer, modelfile.locked(self.path, self._say):
            draft = copy.copy(self.current.classifier)
            found = _stamp(self.path)
            if found and found != self._written:  # the command line has changed it in the meantime
                draft.replace(modelfile.load(self.path), restart=True)
            result = work(draft)
            if draft.model is not self.current.classifier.model:
                draft.save(self.path)
                self._written = _stamp(self.path)
                self.current = ModelRevision(self.current.revision + 1, draft)
            return result


def _stamp(path: Path) -> Stamp:
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns

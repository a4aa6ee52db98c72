"""Photos that were asked about: their features stay in memory, so that asking again and correcting need no upload."""

import collections
import dataclasses
import threading
from collections.abc import Iterable, Sequence

from protoreplay.photos.embedding import EmbeddedPhoto, available_cores, embed_photos
from protoreplay.photos.serve.served_model import ServedModel
from protoreplay.photos.serve.turns import TurnQueue
from protoreplay.photos.serve.uploads import ReadPhoto

MOST_QUESTIONS = 16
"""Requests that are answered at a time, or wait for a core."""
WAIT_SECONDS = 60.0
"""For a core."""
MOST_ASKED_PHOTOS = 5000
"""Photos that are remembered, about 10 KB each; the ones asked about last."""


class AskedPhotos:
    """Looks at photos and remembers what it saw, by the photo's key, until the server stops or others take its place.

    Args:
        served: has the encoder.
        most: photos that are remembered.
    """

    def __init__(self, served: ServedModel, most: int = MOST_ASKED_PHOTOS) -> None:
        self._served, self._most = served, most
        self._cores = available_cores()
        # More at once would only make each other slower.
        self._questions = TurnQueue(self._cores, MOST_QUESTIONS, "requests")
        self._lock = threading.Lock()
        self._known: collections.OrderedDict[int, EmbeddedPhoto] = collections.OrderedDict()

    def look(self, photos: Sequence[ReadPhoto], remember: bool) -> list[EmbeddedPhoto]:
        """What becomes of each photo, in order; those that were refused stay refused."""
        contents = [photo for photo in photos if isinstance(photo, bytes)]
        with self._questions.turn(WAIT_SECONDS):
            threads = min(self._cores, max(1, len(contents)))
            seen = iter(list(embed_photos(self._served.encoder, contents, thumbnails=remember, threads=threads)))
        found = []
        for number, photo in enumerate(photos, 1):
            found.append(dataclasses.replace(next(seen) if isinstance(photo, bytes) else photo, name=f"photo {number}"))
        if remember:
            self._remember(found)
        return found

    def find(self, keys: Iterable[int]) -> tuple[list[EmbeddedPhoto], list[int]]:
        """The remembered photos of these keys, each once, in order; and the keys of which nothing is remembered."""
        found, missing = [], []
        with self._lock:
            for key in dict.fromkeys(keys):
                if key in self._known:
                    self._known.move_to_end(key)
                    found.append(self._known[key])
                else:
                    missing.append(key)
        return found, missing

    def drop(self, keys: Iterable[int]) -> None:
        """Remember nothing of these any longer."""
        with self._lock:
            for key in keys:
                self._known.pop(key, None)

    def _remember(self, photos: Sequence[EmbeddedPhoto]) -> None:
        with self._lock:
            for photo in photos:
                if photo.features is not None:
                    self._known[photo.key] = photo
                    self._known.move_to_end(photo.key)
            while len(self._known) > self._most:
                self._known.popitem(last=False)

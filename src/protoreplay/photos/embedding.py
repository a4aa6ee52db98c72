"""Photos to features, as a stream over all cores.

Each core takes a few photos through all stages, from the file to the features: no queue between stages runs empty or
full, and every core is busy to the end. Pillow and onnxruntime work without Python's lock.
"""

import collections
import dataclasses
import functools
import hashlib
import io
import itertools
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from protoreplay.core.errors import UserError
from protoreplay.data import pictures
from protoreplay.encoders.pretrained import Features, FrozenEncoder
from protoreplay.photos.feature_cache import FeatureCache
from protoreplay.photos.photo_inputs import Photo
from protoreplay.photos.zipped_photos import ZippedPhoto, is_zip, zip_problem

BATCH_PIXELS = 2**18
"""In one call of the network: more is no faster, because its activations no longer fit a core's own memory."""
THUMBNAIL = 96
_CHANNELS = ((), (1,), (3,), (4,))


@dataclass(frozen=True)
class EmbeddedPhoto:
    """What became of a photo.

    Attributes:
        name: the file's path, or the photo's number.
        key: the first eight bytes of the SHA-256 of its content, where asked for.
        features: D; None where it could not be read.
        look: a perceptual hash, by which photos that are almost the same are alike, where a key was asked for.
        error: why not, in one line.
        thumbnail: a small JPEG, where asked for.
    """

    name: str
    key: int = 0
    features: Features | None = None
    look: int = 0
    error: str = ""
    thumbnail: bytes = b""


@dataclass
class EmbeddingTimings:
    """CPU seconds of the threads by stage: `read` with decoding and resizing, and the network's `forward` pass."""

    read: float = 0.0
    forward: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, read: float = 0.0, forward: float = 0.0) -> None:
        """Add seconds; may be called from many threads at once."""
        with self._lock:
            self.read += read
            self.forward += forward


def embed_photos(
    encoder: FrozenEncoder,
    photos: Iterable[Photo],
    cache: FeatureCache | None = None,
    thumbnails: bool = False,
    timings: EmbeddingTimings | None = None,
    threads: int | None = None,
    keys: bool = True,
) -> Iterator[EmbeddedPhoto]:
    """What became of each photo, in order, as soon as it and all before it are done.

    Args:
        encoder: makes the features.
        photos: taken a few at a time, so there can be millions.
        cache: where features of photos seen before are found.
        thumbnails: also make a small picture of each.
        timings: added to.
        threads: the machine's cores if left out.
        keys: by which photos are told apart; answering needs none.
    """
    threads = threads or available_cores()
    batch = max(1, min(16, BATCH_PIXELS // encoder.size**2))
    work = functools.partial(
        _chunk, encoder, cache, thumbnails, timings or EmbeddingTimings(), keys or cache is not None
    )
    numbered = enumerate(photos)
    waiting: collections.deque[Future[list[EmbeddedPhoto]]] = collections.deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for chunk in _chunks(numbered, batch, threads):
                waiting.append(pool.submit(work, chunk))
                if len(waiting) >= 3 * threads:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _chunks(photos: Iterator[tuple[int, Photo]], batch: int, threads: int) -> Iterator[list[tuple[int, Photo]]]:
    """Of `batch` photos; of a few photos in all, as many chunks as there are threads."""
    first = list(itertools.islice(photos, batch * threads))
    size = max(1, min(batch, -(-len(first) // threads)))
    while first:
        yield first[:size]
        first = first[size:]
    while chunk := list(itertools.islice(photos, batch)):
        yield chunk


def _chunk(
    encoder: FrozenEncoder,
    cache: FeatureCache | None,
    thumbnails: bool,
    timings: EmbeddingTimings,
    hashed: bool,
    photos: Sequence[tuple[int, Photo]],
) -> list[EmbeddedPhoto]:
    started = time.thread_time()
    results: list[EmbeddedPhoto] = []
    pixels: dict[int, npt.NDArray[np.uint8]] = {}
    digests: dict[int, bytes] = {}
    for number, photo in photos:
        name = str(photo) if isinstance(photo, str | Path | ZippedPhoto) else f"photo {number + 1}"
        try:
            photo = _rgb_array(photo) if isinstance(photo, np.ndarray | Image.Image) else photo
            with pictures.CONTENTS.held(_bytes_to_read(photo)):
                content = _content(photo)
                digest = hashlib.sha256(content).digest() if hashed else b""
                features, look = (cache.get(digest) if cache else None) or (None, 0)
                small = b""
                if features is None or thumbnails:
                    square = _decode(photo, content, encoder.size)
                    small = _thumbnail(square) if thumbnails else b""
                    if features is None:
                        pixels[len(results)], digests[len(results)] = square, digest
                        look = pictures.perceptual_hash(square) if hashed else 0
                del content
            key = _key(digest)
            results.append(EmbeddedPhoto(name, key, features, look, thumbnail=small))
        except UserError as error:
            results.append(EmbeddedPhoto(name, error=str(error)))
    ready = time.thread_time()
    if pixels:
        fresh = encoder.embed(np.stack(list(pixels.values())))
        for index, row in zip(pixels, fresh, strict=True):
            results[index] = dataclasses.replace(results[index], features=row)
        if cache:
            cache.put({digests[i]: (row, results[i].look) for i, row in zip(pixels, fresh, strict=True)})
    timings.add(ready - started, time.thread_time() - ready)
    return results


def photo_key(photo: Photo) -> int:
    """The key of a photo, by which a model knows it; a `UserError` for a file that cannot be read."""
    try:
        with pictures.CONTENTS.held(_bytes_to_read(photo)):
            return _key(hashlib.sha256(_content(photo)).digest())
    except UserError as error:
        raise UserError(f"{photo if isinstance(photo, Path) else 'the photo'}: {error}") from None


def _key(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "big")


def _rgb_array(photo: npt.NDArray[np.uint8] | Image.Image) -> npt.NDArray[np.uint8]:
    """H x W x 3."""
    if isinstance(photo, Image.Image):
        return pictures.rgb_pixels(photo)
    if photo.dtype != np.uint8 or photo.ndim not in (2, 3) or 0 in photo.shape or photo.shape[2:] not in _CHANNELS:
        raise UserError(f"pixels must be uint8, H x W x 3, not {photo.dtype} {photo.shape}")
    if photo.shape[2:] == (3,):
        return photo
    return pictures.rgb_pixels(Image.fromarray(photo[:, :, 0] if photo.shape[2:] == (1,) else photo))


def _bytes_to_read(photo: Photo) -> int:
    """How many bytes its content will take; 0 of what is in memory already."""
    if isinstance(photo, ZippedPhoto):
        return photo.member.file_size
    if isinstance(photo, bytes | np.ndarray):
        return 0
    photo = Path(str(photo))
    try:
        if is_zip(photo):
            raise UserError(zip_problem(photo))
        return pictures.checked_file_size(photo)
    except OSError as error:
        raise UserError(f"unreadable ({error.strerror})") from None


def _content(photo: Photo) -> bytes:
    if isinstance(photo, bytes):
        return photo
    if isinstance(photo, ZippedPhoto):
        return photo.read_bytes()
    if isinstance(photo, np.ndarray):
        return str(photo.shape).encode() + np.ascontiguousarray(photo).tobytes()
    try:
        return Path(str(photo)).read_bytes()
    except OSError as error:
        raise UserError(f"unreadable ({error.strerror})") from None


def _decode(photo: Photo, content: bytes, size: int) -> npt.NDArray[np.uint8]:
    """Its central square, 3 x size x size."""
    if isinstance(photo, np.ndarray):
        return pictures.central_square(Image.fromarray(photo), size, fast=True)
    # Networks do not see what more detail adds (docs/photos.md), and it takes twice the time.
    return pictures.decode_picture(io.BytesIO(content), size, fast=True)[0]


def _thumbnail(square: npt.NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(square.transpose(1, 2, 0)).resize((THUMBNAIL, THUMBNAIL)).save(file, "JPEG", quality=80)
    return file.getvalue()

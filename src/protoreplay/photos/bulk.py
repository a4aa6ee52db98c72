"""Millions of photos: a list cut into chunks, each answered into a file of its own, here or on a Ray cluster.

A chunk's file is written whole or not at all, so the same command continues after a kill; answers are read back in
the order of the list.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from protoreplay.core.checked_json import plain_json
from protoreplay.core.errors import UserError
from protoreplay.core.files import read_regular, write_whole
from protoreplay.core.ray_session import ray_session
from protoreplay.photos import answer_formats, model_file

CHUNK = 1000
MOST_BYTES = 2**28
"""Of the answers of a chunk."""

PhotoChunk = tuple[Path, list[str]]
"""The file for the answers, and the photos."""
ChunkRunner = Callable[[bytes, str, str, Sequence[PhotoChunk], Callable[[int], None]], None]
"""Given a model's bytes, its encoder, a format and chunks to do; told how many photos are done."""


def answer_all(
    model: bytes,
    encoder: str,
    photos: Iterable[Path],
    work: Path,
    format: str,
    run: ChunkRunner,
    tell: Callable[[int], None] = lambda done: None,
    chunk: int = CHUNK,
) -> Iterator[str]:
    """The answers, as lines, in order.

    Args:
        model: the model's file.
        encoder: the name of its encoder, which every worker must be able to open.
        photos: their paths, as the workers see them.
        work: the folder of the chunks' files; one that was begun with another model, list or format is refused.
        format: a name of `ANSWER_FORMATS`.
        run: does the chunks that are not done yet.
        tell: hears how many photos are done.
        chunk: photos in a chunk.
    """
    names = iter(map(str, photos))
    chunks: list[PhotoChunk] = []
    while some := list(itertools.islice(names, chunk)):
        chunks.append((work / f"answers-{len(chunks):06}.{format}", some))
    listing = hashlib.sha256("\n".join(name for _, some in chunks for name in some).encode("utf-8", "surrogateescape"))
    about = {
        "model": hashlib.sha256(model).hexdigest(),
        "photos": listing.hexdigest(),
        "format": format,
        "chunk": chunk,
    }
    _claim(work, about)
    todo = [(path, some) for path, some in chunks if _read_answers(path) is None]
    tell(sum(map(len, (some for _, some in chunks))) - sum(map(len, (some for _, some in todo))))
    if todo:
        run(model, encoder, format, todo, tell)
    for path, _ in chunks:
        lines = _read_answers(path)
        if lines is None:
            raise UserError(f"{path} was changed while it was read: give the command again")
        yield from lines


def _read_answers(path: Path) -> list[str] | None:
    """The lines of a chunk's file; None where it is missing or not as it was written."""
    try:
        digest, _, content = read_regular(path, MOST_BYTES).partition(b"\n")
    except OSError:
        return None
    if hashlib.sha256(content).hexdigest().encode() != digest:
        return None
    return content.decode().split("\n")[:-1]


def answer_in_this_process(
    model: bytes, encoder: str, format: str, chunks: Sequence[PhotoChunk], tell: Callable[[int], None]
) -> None:
    """One chunk after the other in this process."""
    for path, photos in chunks:
        answer_chunk(model, encoder, format, path, photos)
        tell(len(photos))


def answer_on_ray(address: str | None) -> ChunkRunner:
    """On the cluster of this address, or on one started on this machine; each worker opens model and encoder once."""

    def run(model: bytes, encoder: str, format: str, chunks: Sequence[PhotoChunk], tell: Callable[[int], None]) -> None:
        with ray_session(address) as ray:
            _spread(ray, model, encoder, format, chunks, tell)

    return run


def _spread(
    ray: Any, model: bytes, encoder: str, format: str, chunks: Sequence[PhotoChunk], tell: Callable[[int], None]
) -> None:
    shared = ray.put(model)
    remote = ray.remote(num_cpus=1, max_retries=3)(_remote_chunk)
    # A few more than the cluster's cores wait, so that no worker does and the driver holds few.
    limit = 2 * int(ray.cluster_resources().get("CPU", 1)) + 2
    left = iter(chunks)
    running: dict[Any, int] = {}
    while True:
        for path, photos in itertools.islice(left, limit - len(running)):
            running[remote.remote(shared, encoder, format, path, photos)] = len(photos)
        if not running:
            return
        (done,), _ = ray.wait(list(running))
        ray.get(done)
        tell(running.pop(done))


def answer_chunk(
    model: bytes, encoder: str, format: str, path: Path, photos: Sequence[str], threads: int | None = None
) -> None:
    """Answer one chunk into its file."""
    from protoreplay.encoders.pretrained import open_encoder
    from protoreplay.photos.answers import stream_answers
    from protoreplay.photos.embedding import embed_photos

    network = open_encoder(encoder)
    opened = model_file.model_from_bytes(model, "the model").on_encoder(network)
    embedded = embed_photos(network, map(Path, photos), threads=threads, keys=False)
    lines = [answer_formats.ANSWER_FORMATS[format](one) + "\n" for one in stream_answers(embedded, opened)]
    content = "".join(lines).encode("utf-8", "backslashreplace")
    write_whole(path, hashlib.sha256(content).hexdigest().encode() + b"\n" + content)


def _remote_chunk(model: bytes, encoder: str, format: str, path: Path, photos: Sequence[str]) -> None:
    answer_chunk(model, encoder, format, path, photos, threads=1)


def _claim(work: Path, about: Mapping[str, object]) -> None:
    """Mark the folder as that of this work, or see that it is."""
    work.mkdir(parents=True, exist_ok=True)
    mark = work / "work.json"
    if not mark.exists():
        write_whole(mark, json.dumps(about).encode())
    try:
        same = plain_json(read_regular(mark, 2**20)) == about
    except ValueError:
        same = False
    if not same:
        raise UserError(f"{work} holds answers to other photos or of another model: give an empty folder")

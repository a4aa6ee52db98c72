"""The photo classifier: embedding against a plain eager loop, what `predict` spends its time on, one photo more among
100 classes, 10,000 classes.

`classes` measures the last of these alone, `correction` the one before.
"""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from protoreplay import Classifier
from protoreplay.encoders import pretrained
from protoreplay.photos.answers import BATCH, answer_batch
from protoreplay.photos.embedding import EmbeddedPhoto, EmbeddingTimings, embed_photos
from protoreplay.photos.model_file import write_model
from protoreplay.photos.photo_class import PhotoClass
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.photos.teaching import PreparedPhotos, learn_prepared
from protoreplay.prototypes.sums import rooted

sys.path.insert(0, str(Path(__file__).parents[1]))  # the eager network is the one that tests compare with
from tests.encoders import efficientnet_twin

PHOTOS, ROUNDS, BATCH_OF_EAGER = 1000, 3, 16


def against_eager(name: str, count: int = 64) -> None:
    """Images a second of wall time over all cores, and a second of CPU, from pixels in memory.

    The best of a few rounds, taken in turns. Other programs slow the eager loop down the more, because its threads
    wait for each other in every layer: the ratio of CPU seconds is the one that does not depend on them.
    """
    network, fast = efficientnet_twin.load(name), pretrained.open_encoder(name)
    pixels = np.random.default_rng(0).integers(0, 256, (count, fast.size, fast.size, 3), dtype=np.uint8)
    tensors = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()

    def eager() -> None:
        with torch.inference_mode():
            for batch in tensors.split(BATCH_OF_EAGER):
                network(batch.float())

    best: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for kind, action in (("eager", eager), ("ours", lambda: list(embed_photos(fast, list(pixels))))):
            wall, cpu = time.perf_counter(), time.process_time()
            action()
            speeds = (count / (time.perf_counter() - wall), count / (time.process_time() - cpu))
            best[kind] = [max(pair) for pair in zip(speeds, best.get(kind, (0, 0)), strict=True)]
    for clock, unit in enumerate(("wall time", "CPU")):
        one, other = best["ours"][clock], best["eager"][clock]
        print(f"{name} at {fast.size} px: {one:.1f} a second of {unit}, eager {other:.1f}: {one / other:.2f}x")


def write_photos(folder: Path, count: int = PHOTOS) -> list[Path]:
    """JPEGs of 640 x 480 with soft shapes, as detailed as photos: about 100 KB each."""
    random = np.random.default_rng(0)
    paths = [folder / f"{i:04}.jpg" for i in range(count)]
    for path in paths:
        coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((640, 480))
        grain = random.integers(-20, 21, (480, 640, 1))
        pixels = (np.asarray(coarse) + grain).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(path, quality=90)
    return paths


def shares() -> None:
    """CPU seconds, which do not count waiting for other programs."""
    with tempfile.TemporaryDirectory() as folder:
        paths = write_photos(Path(folder))
        classifier = Classifier(cache=False)
        classifier.learn({"one": paths[:10], "two": paths[10:20]})
        timings, started, wall = EmbeddingTimings(), time.process_time(), time.perf_counter()
        for answer in classifier.predict(paths, timings=timings):
            assert answer.choices
        total, wall = time.process_time() - started, time.perf_counter() - wall
    parts = {"forward": timings.forward, "read, decode and resize": timings.read}
    parts["everything else"] = total - sum(parts.values())
    print(
        f"predict on {PHOTOS} JPEG photos, {PHOTOS / wall:.0f} a second, {total:.1f} s of CPU: "
        + ", ".join(f"{part} {seconds / total:.1%}" for part, seconds in parts.items())
    )


def made_up_class(random: np.random.Generator, k: int, width: int, photos: int) -> PhotoClass:
    centre, keys = random.random(width), range(photos * k, photos * (k + 1))
    return PhotoClass.of(rooted(centre + random.standard_gamma(0.3, (photos, width))), list(keys))


def made_up(
    fast: pretrained.FrozenEncoder, random: np.random.Generator, count: int, width: int, photos: int
) -> PhotoModel:
    classes = {f"{k:05}": made_up_class(random, k, width, photos) for k in range(count)}
    return PhotoModel(fast.name, fast.fingerprint).learn(classes)


def embedding_seconds(fast: pretrained.FrozenEncoder) -> float:
    """CPU seconds for one photo."""
    pixels = np.random.default_rng(0).integers(0, 256, (4, 3, fast.size, fast.size), dtype=np.uint8)
    fast.embed(pixels)
    started = time.process_time()
    for _ in range(5):
        fast.embed(pixels)
    return (time.process_time() - started) / 20


def correction(count: int = 100, photos: int = 10) -> None:
    """One photo more of a class: in a program, and by `learn` with everything from its start to its end."""
    fast, random = pretrained.open_encoder(), np.random.default_rng(0)
    model = made_up(fast, random, count, fast.width, photos).calibrated()
    taught, told = [], []
    with tempfile.TemporaryDirectory() as folder:
        path, photo = Path(folder) / "model", write_photos(Path(folder), ROUNDS)
        write_model(model, path)
        for number in range(ROUNDS):
            features = random.random((1, fast.width), dtype=np.float32)[0]
            prepared = PreparedPhotos({"00000": [EmbeddedPhoto(f"{number}", 10**6 + number, features)]})
            started = time.process_time()
            learn_prepared(replace(model), prepared)[0].head.scores(random.random((1, fast.width)))
            taught.append(time.process_time() - started)
            (Path(folder) / f"{number}").mkdir()
            photo[number].rename(Path(folder) / f"{number}" / "one.jpg")
            words = ["learn", str(path), str(Path(folder) / f"{number}"), "--class", "00000", "--no-cache"]
            before = os.times()
            subprocess.run([sys.executable, "-m", "protoreplay.cli", *words], check=True, capture_output=True)
            after = os.times()
            told.append(after.children_user + after.children_system - before.children_user - before.children_system)
    embedding = embedding_seconds(fast)
    print(
        f"one photo more among {count} classes of {photos}: {min(taught):.2f} s of CPU in a program, as long as "
        f"{min(taught) / embedding:.0f} embeddings; {min(told):.2f} s of CPU for the command `learn`"
    )


def many_classes(count: int = 10_000, width: int = 1280, photos: int = 10) -> None:
    """What an answer costs after the embedding, as a share of one embedding, in CPU seconds; and one class more."""
    fast = pretrained.open_encoder()
    random = np.random.default_rng(0)
    model = made_up(fast, random, count, width, photos)
    started = time.perf_counter()
    model.head.scores(random.random((1, width)))
    print(f"{count:,} classes of {photos} photos, {width:,} features: the first head {seconds(started)}")
    kept = sum(sum(own.stored_bytes().values()) for own in model.classes.values())
    shared = model.taught.covariance.dense.nbytes + model.head.matrix.nbytes + model.taught.prototypes.nbytes
    print(
        f"  kept {kept / 1e6:.0f} MB, with the head and the shared covariance {(kept + shared) / 1e6:.0f} MB of memory"
    )
    added = {"one more": made_up_class(random, count, width, photos)}
    started = time.perf_counter()
    larger = model.learn(added)
    larger.head.scores(random.random((1, width)))
    print(f"  class {count + 1:,} taught in {seconds(started)}")
    asked = [EmbeddedPhoto(str(k), k, row) for k, row in enumerate(random.random((256, width), dtype=np.float32))]
    started = time.process_time()
    for start in range(0, len(asked), BATCH):
        answer_batch(asked[start : start + BATCH], model)
    after = (time.process_time() - started) / len(asked)
    embedding = embedding_seconds(fast)
    share = f"{1e3 * after:.2f} ms after {1e3 * embedding:.1f} ms of embedding ({after / embedding:.1%})"
    print(f"  an answer takes {share}")


def seconds(started: float) -> str:
    return f"{time.perf_counter() - started:.1f} s"


def main() -> None:
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the start")
    if not sys.argv[1:]:
        for name in ("lite2", "lite0"):
            against_eager(name)
        shares()
    if sys.argv[1:] != ["classes"]:
        correction()
    if sys.argv[1:] != ["correction"]:
        many_classes()


if __name__ == "__main__":
    main()

"""The photo classifier: embedding against a plain eager loop, what `predict` spends its time on, 10,000 classes."""

import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from protoreplay import Classifier
from protoreplay.backbones import efficientnet, encoder
from protoreplay.classifier import answers
from protoreplay.photos.concepts import Concept, rooted
from protoreplay.photos.embedding import Embedded, Timings, embed
from protoreplay.photos.model import Model

PHOTOS, ROUNDS = 1000, 3


def against_eager(name: str, count: int = 64) -> None:
    """Images a second over all cores, from pixels in memory; the best of a few rounds, taken in turns."""
    network, fast = efficientnet.load(name), encoder.get(name)
    pixels = np.random.default_rng(0).integers(0, 256, (count, fast.size, fast.size, 3), dtype=np.uint8)
    tensors = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()
    best = {"eager, batches of 32": 0.0, "eager, one by one": 0.0, "ours": 0.0}
    with torch.inference_mode():
        for _ in range(ROUNDS):
            for kind, size in (("eager, batches of 32", 32), ("eager, one by one", 1)):
                started = time.perf_counter()
                for batch in tensors.split(size):
                    network(batch.float())
                best[kind] = max(best[kind], count / (time.perf_counter() - started))
            started = time.perf_counter()
            list(embed(fast, list(pixels)))
            best["ours"] = max(best["ours"], count / (time.perf_counter() - started))
    ratio = best["ours"] / max(speed for kind, speed in best.items() if kind != "ours")
    speeds = ", ".join(f"{kind} {speed:.1f}" for kind, speed in best.items())
    print(f"{name} at {fast.size} px, images a second: {speeds}; ours is {ratio:.2f}x the better eager loop")


def write_photos(folder: Path) -> list[Path]:
    """JPEGs of 640 x 480 with soft shapes, as detailed as photos: about 100 KB each."""
    random = np.random.default_rng(0)
    paths = [folder / f"{i:04}.jpg" for i in range(PHOTOS)]
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
        timings, started, wall = Timings(), time.process_time(), time.perf_counter()
        for answer in classifier.predict(paths, timings=timings):
            assert answer.choices
        total, wall = time.process_time() - started, time.perf_counter() - wall
    rest = total - timings.forward - timings.read
    print(
        f"predict on {PHOTOS} JPEG photos, {total:.1f} s of CPU: forward {timings.forward / total:.1%}, "
        f"read, decode and resize {timings.read / total:.1%}, everything else {rest / total:.1%}; {PHOTOS / wall:.0f} a second"
    )


def many_classes(count: int = 10_000) -> None:
    """What an answer costs after the embedding, as a share of one embedding, both in CPU seconds."""
    fast = encoder.get()
    random = np.random.default_rng(0)
    vectors = rooted(random.random((count, fast.width), dtype=np.float32))
    taught = {f"{k:05}": Concept.of(vectors[k : k + 1], [k]) for k in range(count)}
    model = Model(fast.name, fast.fingerprint).learn(taught)
    model.head.scores(vectors[:1])
    asked = [Embedded(str(k), k, row) for k, row in enumerate(random.random((256, fast.width), dtype=np.float32))]
    started = time.process_time()
    for start in range(0, len(asked), 64):
        answers(asked[start : start + 64], model)
    after = (time.process_time() - started) / len(asked)
    pixels = random.integers(0, 256, (4, 3, fast.size, fast.size), dtype=np.uint8)
    fast.embed(pixels)
    started = time.process_time()
    for _ in range(5):
        fast.embed(pixels)
    embedding = (time.process_time() - started) / 20
    print(
        f"{count:,} classes: an answer takes {1e3 * after:.2f} ms after {1e3 * embedding:.1f} ms of embedding ({after / embedding:.1%})"
    )


def main() -> None:
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the start")
    for name in ("lite2", "lite0"):
        against_eager(name)
    shares()
    many_classes()


if __name__ == "__main__":
    main()

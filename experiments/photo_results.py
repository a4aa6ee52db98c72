"""Measure the photo classifier on real photos and record it under results/photos/.

python experiments/photo_results.py cifar|unknown|alike|mini|onnx|kill|encoders ...

The cache has cifar10, mnist and mini-imagenet; Fashion-MNIST is where Debian's `dataset-fashion-mnist` puts it.

Every number comes from the commands themselves (`learn`, `evaluate`, `export`), called in this process on folders of
PNGs that are written first, in a temporary folder; draws of photos are fixed by their number.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from photo_heads import fashion
from PIL import Image, ImageDraw, ImageEnhance
from torch import Tensor

from protoreplay import Classifier, cli
from protoreplay.core.files import write_whole
from protoreplay.data import cifar10, mini_imagenet, mnist
from protoreplay.photos.answers import Answer

RESULTS = Path(__file__).parent.parent / "results" / "photos"
DRAWS = 10


def command(*words: str | Path, warnings: bool = False) -> str:
    """What a command prints, with its warnings if asked for."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed if warnings else io.StringIO()):
        cli.app([str(word) for word in words], standalone_mode=False)
    return printed.getvalue()


def write(images: Tensor, labels: np.ndarray, names: Sequence[str], chosen: Iterable[int], folder: Path) -> None:
    for index in chosen:
        place = folder / names[labels[index]]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images[index].numpy().transpose(1, 2, 0)).save(place / f"{index:05}.png")


def draw(labels: np.ndarray, each: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.concatenate([random.permutation(np.flatnonzero(labels == c))[:each] for c in range(labels.max() + 1)])


def write_cifar(root: Path) -> list[str]:
    data = cifar10.load()
    names = data.train.class_names
    train, test = data.train.labels.numpy(), data.test.labels.numpy()
    write(data.test.images, test, names, draw(test, 100, 7), root / "test")
    for number in range(DRAWS):
        write(data.train.images, train, names, draw(train, 10, number), root / f"draw-{number}")
    return list(names)


def cifar(root: Path) -> dict[str, Any]:
    """Ten photos a class, one class a call; the same in one call; the first two classes as the others come."""
    names, rows = write_cifar(root), []
    for number in range(DRAWS):
        shots, one, ten = root / f"draw-{number}", root / f"one-{number}", root / f"ten-{number}"
        first_two = []
        for name in names:
            command("learn", ten, shots / name, "--class", name)
            classifier = Classifier.load(ten)
            answers = [(n, list(classifier.predict(sorted((root / "test" / n).iterdir()), top=10))) for n in names[:2]]
            known = set(classifier.model.classes)
            right = sum(a.choices[0].label == n for n, some in answers for a in some if n in known)
            among_two = sum(best_of(a, names[:2]) == n for n, some in answers for a in some if n in known)
            total = sum(len(some) for n, some in answers if n in known)
            first_two.append({"classes": len(known), "accuracy": right / total, "among_the_two": among_two / total})
        command("learn", one, shots)
        in_ten, in_one = (json.loads(command("evaluate", m, root / "test", "--format", "json")) for m in (ten, one))
        heads = [Classifier.load(m).model.head for m in (ten, one)]
        difference = max(float(abs(a - b).max()) for a, b in zip(*[(h.matrix, h.squares) for h in heads], strict=True))
        kept = ("accuracy", "refused", "calibration_error")
        rows.append({k: in_ten[k] for k in kept} | {"one_call": in_one["accuracy"], "largest_difference": difference})
        rows[-1]["first_two_classes"] = first_two
    return {
        "mean": {k: float(np.mean([r[k] for r in rows])) for k in ("accuracy", "one_call", "refused")},
        "draws": rows,
    }


def encoders(root: Path) -> dict[str, Any]:
    """The draws and test images of `cifar` with each built-in encoder, taught in one call."""
    write_cifar(root)
    found: dict[str, list[float]] = {}
    for encoder in ("lite0", "lite2"):
        for number in range(DRAWS):
            model = root / f"{encoder}-{number}"
            command("learn", model, root / f"draw-{number}", "--encoder", encoder)
            score = json.loads(command("evaluate", model, root / "test", "--format", "json"))
            found.setdefault(encoder, []).append(score["accuracy"])
    return {"mean": {name: round(float(np.mean(each)), 4) for name, each in found.items()}, "draws": found}


def best_of(answer: Answer, names: Sequence[str]) -> str:
    return (
        next(choice.label for choice in answer.choices if choice.label in names)
        if len(answer.choices) > 1
        else names[0]
    )


def unknown(root: Path) -> dict[str, Any]:
    """Five classes taught, the other five and photos of nothing of the kind asked about."""
    write_strange(root / "strange")
    result = _unknown(root, write_cifar(root), strange=True)
    names = write_fashion(root / "fashion")
    return result | {f"Fashion-MNIST {k}": v for k, v in _unknown(root / "fashion", names, strange=False).items()}


def write_fashion(root: Path) -> list[str]:
    """As `write_cifar`: 100 test photos of a class, and draws of ten training photos."""
    names = [f"article {c}" for c in range(10)]
    for part, folder, seed, each in [("t10k", "test", 7, 100)] + [("train", f"draw-{n}", n, 10) for n in range(DRAWS)]:
        images, labels = fashion(part)
        write(torch.from_numpy(images).permute(0, 3, 1, 2), labels, names, draw(labels, each, seed), root / folder)
    return names


def _unknown(root: Path, names: Sequence[str], strange: bool) -> dict[str, Any]:
    from sklearn.metrics import roc_auc_score

    result = {}
    sets = {"0,2,4,6,8": (0, 2, 4, 6, 8), "0-4": (0, 1, 2, 3, 4), "5-9": (5, 6, 7, 8, 9)}
    for label, chosen in sets.items():
        rows = []
        for number in range(DRAWS):
            model = root / f"{label}-{number}"
            for c in chosen:
                folder = root / f"draw-{number}" / names[c]
                command("learn", model, folder, "--class", names[c], "--unknown", "0.05")
            classifier = Classifier.load(model)
            photos = {n: sorted((root / "test" / n).iterdir()) for n in names}
            scores = {n: [a.familiarity for a in classifier.predict(some)] for n, some in photos.items()}
            known = [s for c, n in enumerate(names) if c in chosen for s in scores[n]]
            others = [s for c, n in enumerate(names) if c not in chosen for s in scores[n]]
            row = {"refused": float(np.mean(np.less(known, 0))), "others_refused": float(np.mean(np.less(others, 0)))}
            row["auroc"] = float(roc_auc_score([1] * len(known) + [0] * len(others), known + others))
            for kind in ("digits", "noise", "text") if strange else ():
                answers = classifier.predict(sorted((root / "strange" / kind).iterdir()))
                row[kind] = float(np.mean([a.label is None for a in answers]))
            rows.append(row)
        result[label] = {"mean": {k: float(np.mean([r[k] for r in rows])) for k in rows[0]}, "draws": rows}
    return result


SENTENCE = "teach it a few photos of each thing and it will tell them apart or say so when it cannot"
LOOKED_AT = 100
"""Test digits that settings were once chosen on: they are not asked about."""


def write_strange(folder: Path) -> None:
    """Five hundred handwritten digits; noise coarse and fine and lines of text, a hundred of each."""
    random = np.random.default_rng(0)
    for kind in ("digits", "noise", "text"):
        (folder / kind).mkdir(parents=True)
    for i, digit in enumerate(mnist.load().test.images[LOOKED_AT : LOOKED_AT + 500, 0].numpy()):
        Image.fromarray(digit).save(folder / "digits" / f"{i:03}.png")
    for i in range(100):
        size = 32 if i % 2 else 224
        noise = random.integers(0, 256, (size, size, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / "noise" / f"{i:03}.png")
        page = Image.new("RGB", (200, 200), "white")
        for line in range(12):
            ImageDraw.Draw(page).text((5, 4 + 16 * line), " ".join(random.choice(SENTENCE.split(), 6)), fill="black")
        page.save(folder / "text" / f"{i:03}.png")


def alike(root: Path) -> dict[str, Any]:
    """Twelve classes of mini-ImageNet, taught with jittered crops of one photo each, and of three; and as usual."""
    data, result = mini_imagenet.load(84), {}
    names = [name.replace("/", "-") for name in data.train.class_names]
    train, test = data.train.labels.numpy(), data.test.labels.numpy()
    chosen = np.random.default_rng(0).permutation(100)[:12]
    write(data.test.images, test, names, [i for i in draw(test, 20, 7) if test[i] in chosen], root / "test")
    for label, photos, crops in (
        ("20 crops of one photo", 1, 20),
        ("10 crops of three photos", 3, 10),
        ("10 photos", 10, 0),
    ):
        rows = []
        for number in range(DRAWS):
            random, model = np.random.default_rng(number), root / f"{photos}-{number}"
            for i in (i for i in draw(train, photos, number) if train[i] in chosen):
                picture = Image.fromarray(data.train.images[i].numpy().transpose(1, 2, 0))
                place = root / f"shots-{photos}-{number}" / names[train[i]]
                place.mkdir(parents=True, exist_ok=True)
                for crop in range(max(crops, 1)):
                    (jittered(picture, random) if crops else picture).save(place / f"{i}-{crop}.png")
            printed = command("learn", model, root / f"shots-{photos}-{number}", warnings=True)
            score = json.loads(command("evaluate", model, root / "test", "--format", "json"))
            said = next(line for line in command("show", model).splitlines() if "I do not know" in line)
            warned = printed.count("almost the same")
            rows.append({"accuracy": score["accuracy"], "refused": score["refused"], "warnings": warned, "said": said})
        mean = {k: float(np.mean([r[k] for r in rows])) for k in ("accuracy", "refused", "warnings")}
        result[label] = {"mean": mean, "draws": rows}
    return result


def jittered(picture: Image.Image, random: np.random.Generator) -> Image.Image:
    """A crop of at least 60 % of the area, perhaps mirrored, brightness, contrast and colour changed by up to 20 %."""
    side = picture.height * random.uniform(0.6, 1) ** 0.5
    left, top = random.uniform(0, picture.width - side), random.uniform(0, picture.height - side)
    made = picture.crop((left, top, left + side, top + side)).resize((224, 224), Image.Resampling.BICUBIC)
    made = made.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else made
    for kind in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        made = kind(made).enhance(random.uniform(0.8, 1.2))
    return made


def mini(root: Path) -> dict[str, Any]:
    """A hundred classes of mini-ImageNet with lite0, ten photos each, in ten calls."""
    data = mini_imagenet.load(84)
    names = [name.replace("/", "-") for name in data.train.class_names]
    train, test = data.train.labels.numpy(), data.test.labels.numpy()
    write(data.test.images, test, names, draw(test, 20, 7), root / "test")
    chosen = draw(train, 10, 0)
    calls = []
    for call in range(10):
        some = [i for i in chosen if train[i] // 10 == call]
        write(data.train.images, train, names, some, root / f"call-{call}")
        started = time.perf_counter()
        command("learn", root / "model", root / f"call-{call}", "--encoder", "lite0", "--no-cache")
        calls.append(time.perf_counter() - started)
    score = json.loads(command("evaluate", root / "model", root / "test", "--format", "json"))
    kept = sum(sum(c.stored_bytes().values()) for c in Classifier.load(root / "model").model.classes.values())
    about = {key: score[key] for key in ("accuracy", "refused", "calibration_error", "photos")}
    return about | {"seconds_of_calls": calls, "bytes_kept": kept, "file_bytes": (root / "model").stat().st_size}


def onnx(root: Path) -> dict[str, Any]:
    """The exported file and the classifier, on a thousand photos."""
    import onnxruntime

    from protoreplay.data import pictures

    write_cifar(root)
    command("learn", root / "model", root / "draw-0")
    command("export", root / "model", "-o", root / "model.onnx")
    session = onnxruntime.InferenceSession(root / "model.onnx", providers=["CPUExecutionProvider"])
    names = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    photos = sorted((root / "test").glob("*/*.png"))
    classifier = Classifier.load(root / "model", cache=False)
    same, largest, close = 0, 0.0, 0.0
    for photo, answer in zip(photos, classifier.predict(photos, top=10), strict=True):
        pixels = pictures.decode_picture(photo, classifier.encoder.size, fast=True)[0][None]
        label, probabilities, familiarity = (value[0] for value in session.run(None, {"pixels": pixels}))
        same += (None if label < 0 else names[label]) == answer.label
        largest = max(largest, *(abs(probabilities[names.index(c.label)] - c.probability) for c in answer.choices))
        close = max(close, abs(familiarity - answer.familiarity))
    return {
        "photos": len(photos),
        "same_label": same,
        "probability_difference": float(largest),
        "familiarity": float(close),
    }


def kill(root: Path) -> dict[str, Any]:
    """`learn` killed at twenty moments spread at random over its whole run, and twenty more around its end."""
    write_cifar(root)
    command("learn", root / "old", root / "draw-0" / "cat", "--class", "cat", "--encoder", "lite0")
    old = (root / "old").read_bytes()
    words: list[str | Path] = [
        sys.executable,
        "-m",
        "protoreplay.cli",
        "learn",
        root / "m",
        root / "draw-0" / "dog",
        "--class",
        "dog",
    ]
    random, found, seconds = np.random.default_rng(0), {"old": 0, "new": 0}, 0.0
    for number in range(41):
        (root / "m").write_bytes(old)
        started = time.perf_counter()
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if number:
            time.sleep(seconds * (random.uniform(0, 1) if number <= 20 else random.uniform(0.8, 1.1)))
            process.kill()
        process.wait()
        seconds = seconds or time.perf_counter() - started
        if number:
            found["new" if "dog" in Classifier.load(root / "m").model.classes else "old"] += 1
    return {**found, "seconds_of_one": seconds}


EXPERIMENTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "cifar": cifar,
    "unknown": unknown,
    "alike": alike,
    "mini": mini,
    "onnx": onnx,
    "kill": kill,
    "encoders": encoders,
}


def main() -> None:
    unknown_names = set(sys.argv[1:]) - EXPERIMENTS.keys()
    if unknown_names or not sys.argv[1:]:
        sys.exit(f"give some of {', '.join(EXPERIMENTS)}")
    for name in sys.argv[1:]:
        started, load = time.perf_counter(), os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as folder:
            result = EXPERIMENTS[name](Path(folder))
        about: dict[str, Any] = {"command": f"python experiments/photo_results.py {name}"}
        about |= {"seconds": round(time.perf_counter() - started, 1)}
        about |= {"cores": os.cpu_count(), "load_average_at_start": round(load, 1)}
        RESULTS.mkdir(parents=True, exist_ok=True)
        write_whole(RESULTS / f"{name}.json", (json.dumps({**about, "result": result}, indent=1) + "\n").encode())
        print(name, json.dumps(result.get("mean", result))[:400])


if __name__ == "__main__":
    main()

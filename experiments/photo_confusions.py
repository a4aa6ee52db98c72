"""How many photos are confused, and how many were expected to be: the figures of results/photos/confusions.json.

python experiments/photo_confusions.py develop    on training photos alone: the constants of `advice` were chosen there
python experiments/photo_confusions.py            on test photos, on which nothing was chosen

Random classes of CIFAR-10, Fashion-MNIST and mini-ImageNet are taught with a few training photos each, and photos that
were not taught are asked about. For each pair of classes, the share of photos of one that are taken for the other is
compared with what `show` says. Features are those of `lite2`, kept in the cache of features, so that only the first run
takes minutes.
"""

import itertools
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from photo_heads import RESULTS, Features, Integers, drawn, load

from protoreplay.core.files import write_whole
from protoreplay.data import mini_imagenet
from protoreplay.photos import advice
from protoreplay.photos.photo_class import PhotoClass
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.prototypes.sums import Floats

SHOTS: tuple[tuple[int, ...], ...] = ((3,), (5,), (10,), (20,), (2, 4, 8, 16))
"""Photos of each class, in turn."""
DRAWS = {2: 20, 5: 10, 10: 10, 20: 5, 100: 2}
"""How often so many classes are drawn."""
EDGES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 1.0)
TEST_PHOTOS = {"cifar10": 200, "fashion-mnist": 200, "mini-imagenet": 50}
Pair = tuple[Floats, Floats]


def taught(
    x: Floats, y: Integers, classes: Integers, shots: tuple[int, ...], random: np.random.Generator
) -> PhotoModel:
    some = {}
    for number, c in enumerate(classes):
        rows = random.permutation(np.flatnonzero(y == c))[: shots[number % len(shots)]]
        some[f"{c:03}"] = PhotoClass.of(x[rows], rows.tolist())
    return PhotoModel("lite2", "").learn(some)


def found_shares(model: PhotoModel, x: Floats, y: Integers) -> Floats:
    """Of each class, the share of its photos of which each class is the likeliest."""
    names = model.head.names
    counts = [np.bincount(model.head.scores(x[y == int(n)])[0].argmax(1), minlength=len(names)) for n in names]
    return np.stack([own / own.sum() for own in counts])


def pairs(parts: tuple[tuple[Floats, Integers], tuple[Floats, Integers]], count: int, seed: int) -> Iterator[Pair]:
    """Of several draws of `count` classes: what is expected of each pair of classes, and what is found."""
    (x, y), (asked, right) = parts
    random = np.random.default_rng(seed)
    for shots in SHOTS:
        for _ in range(DRAWS[count]):
            model = taught(x, y, random.permutation(int(y.max()) + 1)[:count], shots, random)
            others = ~np.eye(count, dtype=bool)
            yield advice.expected_confusions(model)[others], found_shares(model, asked, right)[others]


def summary(some: list[Pair]) -> dict[str, Any]:
    """Means in per cent over pairs of classes, each draw with the same weight."""
    said, found = (np.concatenate(part) for part in zip(*some, strict=True))
    weights = np.concatenate([np.full(len(one), 1 / len(one)) for one, _ in some])
    place = np.digitize(said, EDGES) - 1

    def mean(values: Floats, there: Any) -> float:
        return round(100 * float(weights[there] @ values[there] / weights[there].sum()), 2)

    def row(label: str, there: Any) -> dict[str, Any]:
        return {
            "said": label,
            "pairs": int(there.sum()),
            "mean said": mean(said, there),
            "mean found": mean(found, there),
        }

    bins = [
        row(f"{100 * low:.0f} to {100 * high:.0f} %", place == b)
        for b, (low, high) in enumerate(itertools.pairwise(EDGES))
        if (place == b).any()
    ]
    return {"all": row("all", said >= 0), "by what is said": bins}


def birds(parts: tuple[tuple[Floats, Integers], tuple[Floats, Integers]]) -> dict[str, Any]:
    """Robin and toucan, the pair of which too little was said once, among the first five classes of birds."""
    names = list(mini_imagenet.load(84).train.class_names)
    some = [names.index(name) for name in ("house finch", "robin", "toucan", "goose", "king crab") if name in names]
    one, other = (sorted(some).index(names.index(name)) for name in ("robin", "toucan"))
    (x, y), (asked, right) = parts
    rows = []
    for seed in range(20):
        model = taught(x, y, np.array(some), (5,), np.random.default_rng(seed))
        said, found = advice.expected_confusions(model), found_shares(model, asked, right)
        rows.append([said[one, other], said[other, one], found[one, other], found[other, one]])
    mean = [round(100 * float(share), 2) for share in np.mean(rows, 0)]
    return {
        "robin for toucan": {"said": mean[0], "found": mean[2]},
        "toucan for robin": {"said": mean[1], "found": mean[3]},
    }


def main() -> None:
    started, develop = time.perf_counter(), sys.argv[1:] == ["develop"]
    result: dict[str, Any] = {}
    for name, each in TEST_PHOTOS.items():
        train, test = load(name)
        own = Features(train)
        rows = np.random.default_rng(77).permutation(drawn(train[1], 400 if name == "cifar10" else 60, 77))
        first, second = np.array_split(rows, 2)
        parts = (own(first), own(second)) if develop else (own(rows), Features(test)(drawn(test[1], each, 7)))
        for count in (2, 5, 20, 100) if name == "mini-imagenet" else (2, 5, 10):
            some = list(pairs(parts, count, 1000 if develop else 0))
            result[f"{name}, {count} classes"] = summary(some)
            print(name, count, json.dumps(result[f"{name}, {count} classes"]["all"]), flush=True)
        if name == "mini-imagenet":
            result["robin and toucan"] = birds(parts)
    print(json.dumps(result, indent=1))
    if not develop:
        about = {
            "command": "python experiments/photo_confusions.py",
            "seconds": round(time.perf_counter() - started, 1),
            "shots": SHOTS,
            "draws of so many classes": DRAWS,
        }
        write_whole(RESULTS / "confusions.json", (json.dumps({**about, "result": result}, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()

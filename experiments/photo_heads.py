"""What answers best on the same features: this classifier, or what a user could write in three lines.

python experiments/photo_heads.py heads     accuracy on test photos: the table of results/photos/heads.json
python experiments/photo_heads.py capped    what the bound on what is kept of a class costs, on training photos
python experiments/photo_heads.py unequal   classes of 2 to 20 photos each, on training photos

The cache has cifar10 and mini-imagenet; Fashion-MNIST is read from where Debian's `dataset-fashion-mnist` puts it.
Features are those of `lite2`, kept in the cache of features, so that only the first run takes minutes.
"""

import gzip
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold

from protoreplay import Classifier
from protoreplay.core.files import write_whole
from protoreplay.data import cifar10, mini_imagenet
from protoreplay.data.images import ImageSet
from protoreplay.prototypes.near_duplicates import NEAR
from protoreplay.prototypes.prototype_head import PrototypeHead, fit_head
from protoreplay.prototypes.sums import ClassSums, Floats, rooted

RESULTS = Path(__file__).parent.parent / "results" / "photos"
FASHION = Path("/usr/share/datasets/fashion-mnist")
DRAWS, MOST_SHOTS = 10, 50
Pixels = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Part = tuple[Pixels, Integers]


def fashion(part: str) -> Part:
    """Images, N x 28 x 28 x 3, and labels."""
    images, labels = (
        gzip.decompress((FASHION / f"{part}-{kind}-ubyte.gz").read_bytes()) for kind in ("images-idx3", "labels-idx1")
    )
    grey = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28, 1)
    return np.repeat(grey, 3, 3), np.frombuffer(labels, np.uint8, offset=8).astype(np.int64)


def photos_of(images: ImageSet) -> Part:
    return images.images.numpy().transpose(0, 2, 3, 1), images.labels.numpy()


def load(name: str) -> tuple[Part, Part]:
    if name == "fashion-mnist":
        return fashion("train"), fashion("t10k")
    data = cifar10.load() if name == "cifar10" else mini_imagenet.load(84)
    return photos_of(data.train), photos_of(data.test)


def drawn(labels: Integers, each: int, seed: int) -> Integers:
    random = np.random.default_rng(seed)
    return np.concatenate([random.permutation(np.flatnonzero(labels == c))[:each] for c in range(labels.max() + 1)])


class Features:
    """Rooted features of the photos of a data set that are asked for, each embedded once."""

    def __init__(self, part: Part) -> None:
        self.images, self.labels = part
        self._classifier, self._known = Classifier("lite2"), dict[int, Floats]()

    def __call__(self, indices: Integers) -> tuple[Floats, Integers]:
        missing = [int(i) for i in indices if int(i) not in self._known]
        photos = (np.ascontiguousarray(self.images[i]) for i in missing)
        for index, photo in zip(missing, self._classifier.embed(photos), strict=True):
            assert photo.features is not None
            self._known[index] = rooted(photo.features[None])[0]
        return np.stack([self._known[int(i)] for i in indices]), self.labels[indices]


Head = Callable[[Floats, Integers, Floats], Integers]


def sums(x: Floats, y: Integers, reduced: bool = True) -> dict[str, ClassSums]:
    keys = np.random.default_rng(0).permutation(len(x))
    classes = {f"{c:04}": ClassSums.of(x[y == c], keys[y == c], kind=np.float16) for c in np.unique(y)}
    return {name: own.reduced() if reduced else own for name, own in classes.items()}


def answered(head: PrototypeHead, y: Integers, asked: Floats) -> Integers:
    answers: Integers = np.unique(y)[head.scores(asked)[0].argmax(1)]
    return answers


def ours(x: Floats, y: Integers, asked: Floats) -> Integers:
    return answered(fit_head(sums(x, y), near=NEAR), y, asked)


def ours_unbounded(x: Floats, y: Integers, asked: Floats) -> Integers:
    return answered(fit_head(sums(x, y, reduced=False), near=NEAR), y, asked)


def diagonal(x: Floats, y: Integers, asked: Floats) -> Integers:
    """The nearest mean, dimensions weighted by variances that classes share, with their mean as a ridge."""
    means = np.stack([x[y == c].mean(0) for c in np.unique(y)])
    variances = np.square(x - means[np.searchsorted(np.unique(y), y)]).sum(0) / (len(x) - len(means))
    weights = 1 / (variances + variances.mean())
    answers: Integers = np.unique(y)[(2 * (asked * weights) @ means.T - np.square(means) @ weights).argmax(1)]
    return answers


def logistic(x: Floats, y: Integers, asked: Floats) -> Integers:
    """C is chosen by cross-validation on the taught photos; of 100 classes from fewer values, for the time it takes."""
    many = y.max() >= 10
    folds = StratifiedKFold(3 if many else min(5, int(np.bincount(y).min())), shuffle=True, random_state=0)
    model = LogisticRegressionCV(
        Cs=[3, 30] if many else [0.3, 1, 3, 10, 30, 100],
        cv=folds,
        l1_ratios=(0,),
        use_legacy_attributes=False,
        scoring="accuracy",
        max_iter=100 if many else 300,
    )
    return model.fit(x, y).predict(asked)  # type: ignore[no-any-return]


def accuracy(head: Head, x: Floats, y: Integers, asked: Floats, right: Integers) -> float:
    return 100 * float((head(x, y, asked) == right).mean())


def nested(rows: Integers, labels: Integers, shots: int) -> Integers:
    """The first `shots` of each class."""
    return np.concatenate([rows[labels[rows] == c][:shots] for c in np.unique(labels[rows])])


def heads() -> None:
    result = {}
    for name, shots_tried in (("cifar10", (3, 10, 50)), ("fashion-mnist", (3, 10, 50)), ("mini-imagenet", (10,))):
        train, test = (Features(part) for part in load(name))
        asked, right = test(drawn(test.labels, 20 if name == "mini-imagenet" else 200, 7))
        for shots in shots_tried:
            found: dict[str, list[float]] = {}
            for seed in range(DRAWS):
                rows = nested(
                    drawn(train.labels, 10 if name == "mini-imagenet" else MOST_SHOTS, seed), train.labels, shots
                )
                x, y = train(rows)
                for label, head in (("ours", ours), ("logistic", logistic), ("diagonal", diagonal)):
                    found.setdefault(label, []).append(accuracy(head, x, y, asked, right))
            result[f"{name}, {shots} shots"] = found
            means = {label: round(float(np.mean(each)), 2) for label, each in found.items()}
            gap = np.subtract(found["ours"], found["logistic"])
            print(
                f"{name:14} {shots:3} shots",
                means,
                f"ours - logistic {gap.mean():+.2f} ± {gap.std(ddof=1) / DRAWS**0.5:.2f}",
                flush=True,
            )
    gaps = [np.mean(np.subtract(found["ours"], found["logistic"])) for found in result.values()]
    print(f"ours - logistic: mean over cells {np.mean(gaps):+.2f}, worst cell {min(gaps):+.2f}")
    about = {"command": "python experiments/photo_heads.py heads", "draws": DRAWS, "accuracy": result}
    write_whole(RESULTS / "heads.json", (json.dumps(about, indent=1) + "\n").encode())


def training_rows(name: str) -> Features:
    return Features(load(name)[0])


def compare(what: str, rows_of: Callable[[Integers, int], Integers], by_name: dict[str, Head]) -> None:
    """Heads on training photos: taught on some of them, asked about others."""
    for name in ("cifar10", "fashion-mnist"):
        train = training_rows(name)
        found: dict[str, list[float]] = {}
        for seed in range(DRAWS):
            taught = drawn(train.labels, MOST_SHOTS, seed)
            x, y = train(rows_of(taught, seed))
            asked, right = train(np.setdiff1d(drawn(train.labels, MOST_SHOTS, (seed + 1) % DRAWS), taught))
            for label, head in by_name.items():
                found.setdefault(label, []).append(accuracy(head, x, y, asked, right))
        print(what, name, {label: f"{np.mean(each):.2f}" for label, each in found.items()}, flush=True)


def capped() -> None:
    compare("50 shots", lambda rows, seed: rows, {"bounded": ours, "all kept": ours_unbounded})


def unequal() -> None:
    def some(rows: Integers, seed: int) -> Integers:
        random = np.random.default_rng(seed)
        classes = rows.reshape(-1, MOST_SHOTS)
        return np.concatenate([own[: random.integers(2, 21)] for own in classes])

    compare("2 to 20 shots", some, {"ours": ours, "logistic": logistic, "diagonal": diagonal})


def main() -> None:
    chosen = {"heads": heads, "capped": capped, "unequal": unequal}.get(" ".join(sys.argv[1:]))
    if chosen is None:
        sys.exit("give heads, capped or unequal")
    started = time.perf_counter()
    chosen()
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()

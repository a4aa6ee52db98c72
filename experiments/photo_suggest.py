"""How much better photos are that `protoreplay suggest` asks for than photos at random.

python experiments/photo_suggest.py develop    on training photos alone: the rule and what it was chosen among
python experiments/photo_suggest.py            on test photos: results/photos/suggest.json

A draw is 1,500 photos of CIFAR-10's training set to choose from; a few of each class are taught, and then ten more in
each of five rounds, chosen by a rule and labelled right. The two rules of a pair start from the same photos. Features
are those of `lite2`, kept in the cache of features, so that only the first run takes minutes.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from photo_heads import RESULTS, Features, Integers, drawn, load

from protoreplay.core.files import write_whole
from protoreplay.photos import suggesting
from protoreplay.photos.answers import answer_batch, stacked_features
from protoreplay.photos.embedding import EmbeddedPhoto
from protoreplay.photos.photo_class import PhotoClass
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.prototypes.sums import Floats

POOL, ROUNDS, EACH, DRAWS = 1500, 5, 10, 10
Chooser = Callable[[PhotoModel, list[EmbeddedPhoto], np.random.Generator], list[int]]


def at_random(model: PhotoModel, photos: list[EmbeddedPhoto], random: np.random.Generator) -> list[int]:
    return [int(i) for i in random.choice(len(photos), EACH, replace=False)]


def suggested(model: PhotoModel, photos: list[EmbeddedPhoto], random: np.random.Generator) -> list[int]:
    places = {photo.name: number for number, photo in enumerate(photos)}
    return [places[one.answer.photo] for one in suggesting.suggest_photos(model, photos, EACH)]


def most_unsure(model: PhotoModel, photos: list[EmbeddedPhoto], random: np.random.Generator) -> list[int]:
    """The ten of which the model is least sure, whatever they are like."""
    unsure = [suggesting._unsure(a) for a in answer_batch(photos, model, top=2)]
    return [int(i) for i in np.argsort(-np.array(unsure), kind="stable")[:EACH]]


def all_alike(model: PhotoModel, photos: list[EmbeddedPhoto], random: np.random.Generator) -> list[int]:
    """The same rule, but every photo counts the same."""
    near, covered = suggesting.nearness(stacked_features(photos), model)
    return suggesting.most_added(np.ones(len(photos), np.float32), near, covered, EACH)[0]


class Draw:
    """The photos of one draw: to choose from, and of which some are labelled."""

    def __init__(self, features: Floats, labels: Integers, seed: int, start: int, classes: int) -> None:
        self.random = np.random.default_rng(seed)
        chosen = self.random.permutation(len(features))[:POOL]
        self.x, self.y = features[chosen], labels[chosen]
        known = self.random.permutation(10)[:classes]
        first = [self.random.permutation(np.flatnonzero(self.y == c))[:start] for c in known]
        self.labelled = [int(i) for i in np.concatenate(first)]

    def model(self) -> PhotoModel:
        rows = np.array(self.labelled)
        labels = self.y[rows]
        added = {
            f"{c}": PhotoClass.of(self.x[rows[labels == c]], rows[labels == c].tolist()) for c in np.unique(labels)
        }
        return PhotoModel("lite2", "").learn(added)

    def label_more(self, choose: Chooser) -> None:
        free = [i for i in range(len(self.x)) if i not in set(self.labelled)]
        # Features are rooted already, and roots are taken again of those of photos: squares are given.
        photos = [EmbeddedPhoto(str(i), i, (self.x[i] * np.abs(self.x[i])).astype(np.float32)) for i in free]
        self.labelled += [free[i] for i in choose(self.model(), photos, self.random)]


def accuracy(model: PhotoModel, x: Floats, y: Integers) -> float:
    names = np.array([int(name) for name in model.head.names])
    return float((names[model.head.scores(x)[0].argmax(1)] == y).mean())


def measured(choose: Chooser, train: Any, asked: Any, seed: int, start: int, classes: int = 10) -> list[float]:
    """Accuracy at the start and after each round."""
    draw = Draw(train[0], train[1], seed, start, classes)
    found = [accuracy(draw.model(), *asked)]
    for _ in range(ROUNDS):
        draw.label_more(choose)
        found.append(accuracy(draw.model(), *asked))
    return found


def compared(train: Any, asked: Any, choosers: dict[str, Chooser], first_seed: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for label, start, classes in (("2 of each class", 2, 10), ("5 of each class", 5, 10), ("5 of five classes", 5, 5)):
        runs = {
            name: np.array([measured(c, train, asked, first_seed + n, start, classes) for n in range(DRAWS)])
            for name, c in choosers.items()
        }
        ahead = runs["suggested"][:, -1] - runs["at random"][:, -1]
        result[label] = {
            "mean after each round": {name: [round(float(a), 4) for a in run.mean(0)] for name, run in runs.items()},
            "final": {name: [round(float(a), 4) for a in run[:, -1]] for name, run in runs.items()},
            "ahead": round(float(ahead.mean()), 4),
            "standard error": round(float(ahead.std(ddof=1) / np.sqrt(DRAWS)), 4),
        }
        print(label, {k: v[-1] for k, v in result[label]["mean after each round"].items()}, result[label]["ahead"])
    return result


def main() -> None:
    started = time.perf_counter()
    train, test = load("cifar10")
    own = Features(train)
    x, y = own(np.random.default_rng(77).permutation(drawn(train[1], 400, 77)))
    choosers: dict[str, Chooser] = {"at random": at_random, "suggested": suggested}
    if sys.argv[1:] == ["develop"]:
        choosers |= {"most unsure": most_unsure, "all alike": all_alike}
        print(json.dumps(compared((x[:2500], y[:2500]), (x[2500:], y[2500:]), choosers, 1000), indent=1))
        return
    asked = Features(test)(np.random.default_rng(7).permutation(drawn(test[1], 200, 7)))
    result = compared((x, y), asked, choosers, 0)
    about = {
        "command": "python experiments/photo_suggest.py",
        "seconds": round(time.perf_counter() - started, 1),
        "photos": {"to choose from": POOL, "test": len(asked[1]), "rounds": ROUNDS, "in a round": EACH, "draws": DRAWS},
    }
    write_whole(RESULTS / "suggest.json", (json.dumps({**about, "result": result}, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()

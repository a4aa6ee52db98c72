"""What the photo classifier's choices are worth, on CIFAR-10's training images; prints the table of docs/photos.md.

python tools/photo_choices.py          (PROTOREPLAY_DATA has cifar10 and mnist; some minutes the first time)
"""

import numpy as np
from sklearn.metrics import roc_auc_score

from protoreplay.backbones import encoder
from protoreplay.data import cifar10, mnist
from protoreplay.photos.embedding import embed
from protoreplay.photos.feature_cache import FeatureCache

DRAWS, SHOTS, ASKED = 8, 10, 60
SETS = ((0, 2, 4, 6, 8), (0, 1, 2, 3, 4), (5, 6, 7, 8, 9))
CHANNELS = 1280


def features(images: list[np.ndarray]) -> np.ndarray:
    lite2 = encoder.get("lite2")
    with FeatureCache(lite2.fingerprint) as cache:
        return np.stack([one.features for one in embed(lite2, images, cache)]).astype(float)


def form(rows: np.ndarray, share: float, root: bool = True) -> np.ndarray:
    """Channels and, weighted by `share`, ImageNet's probabilities; the encoder weights them by a tenth."""
    rows = np.hstack([rows[:, :CHANNELS], rows[:, CHANNELS:] * share / 0.1])
    rows = np.sqrt(rows) if root else rows
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def split(labels: np.ndarray, known: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1000 + seed)
    orders = [random.permutation(np.flatnonzero(labels == c)) for c in range(10)]
    return (
        np.concatenate([orders[c][:SHOTS] for c in known]),
        np.concatenate([order[SHOTS : SHOTS + ASKED] for order in orders]),
    )


class Rule:
    """Distances from means under one metric."""

    def __init__(self, x: np.ndarray, y: np.ndarray, metric: str) -> None:
        self.classes = np.unique(y)
        self.means = np.stack([x[y == c].mean(0) for c in self.classes])
        self.metric, own = metric, np.searchsorted(self.classes, y)
        self.residuals = x - self.means[own]
        freedom = len(x) - len(self.classes)
        variance = np.square(self.residuals).sum(0) / freedom
        shrunk = variance + variance.mean()
        self.variances = np.tile(np.ones_like(shrunk) if metric == "none" else shrunk, (len(self.classes), 1))
        if metric == "per class":
            own_scatter = np.stack([np.square(self.residuals[own == k]).sum(0) for k in range(len(self.classes))])
            self.variances = (own_scatter + 30 * shrunk) / (SHOTS - 1 + 30)
        level = 0.98 * variance.mean()
        inner = np.linalg.inv(np.eye(len(x)) * freedom / 0.02 + self.residuals @ self.residuals.T / level)
        self.full = (level, inner)

    def distances(self, x: np.ndarray, means: np.ndarray) -> np.ndarray:
        columns = []
        for mean, variance in zip(means, np.resize(self.variances, (len(means), x.shape[1])), strict=True):
            offset = x - mean
            if self.metric == "full":
                level, inner = self.full
                along = offset @ self.residuals.T
                columns.append(np.square(offset).sum(1) / level - ((along @ inner) * along).sum(1) / level**2)
            else:
                columns.append((np.square(offset) / variance).sum(1) + np.log(variance).sum())
        return np.stack(columns, 1)

    def familiarity(self, x: np.ndarray, forgiven: float) -> np.ndarray:
        centre = self.distances(x, self.means.mean(0, keepdims=True))[:, 0] if forgiven else 0
        return forgiven * centre - self.distances(x, self.means).min(1)


def line(name: str, x: np.ndarray, y: np.ndarray, strange: np.ndarray, metric: str, forgiven: float) -> str:
    right, areas, refused = [], [], []
    for seed in range(DRAWS):
        taught, asked = split(y, tuple(range(10)), seed)
        rule = Rule(x[taught], y[taught], metric)
        right.append((rule.distances(x[asked], rule.means).argmin(1) == y[asked]).mean())
    for known in SETS:
        area = []
        for seed in range(DRAWS):
            taught, asked = split(y, known, seed)
            rule, inside = Rule(x[taught], y[taught], metric), np.isin(y[asked], known)
            scores = rule.familiarity(x[asked], forgiven)
            area.append(roc_auc_score(inside, scores))
            if known == SETS[0]:
                refused.append((rule.familiarity(strange, forgiven) < np.quantile(scores[inside], 0.05)).mean())
        areas.append(np.mean(area))
    found = " / ".join(f"{area:.3f}".lstrip("0") for area in areas)
    return f"| {name} | {100 * np.mean(right):.1f} | {found} | {100 * np.mean(refused):.0f} |"


def main() -> None:
    data = cifar10.load().train
    labels = data.labels.numpy()
    random = np.random.default_rng(0)
    chosen = np.concatenate([random.permutation(np.flatnonzero(labels == c))[:200] for c in range(10)])
    images = [np.ascontiguousarray(image.numpy().transpose(1, 2, 0)) for image in data.images[chosen]]
    digits = [np.repeat(image.numpy()[0][..., None], 3, 2) for image in mnist.load().train.images[:100]]
    raw, mirrored, strange = features(images), features([image[:, ::-1].copy() for image in images]), features(digits)
    y = labels[chosen]
    print("| | accuracy | AUROC | digits refused |\n|---|---|---|---|")
    plain, none = (form(raw, 0, root=False), form(strange, 0, root=False)), (form(raw, 0), form(strange, 0))
    tenth, quarter = ((form(raw, share), form(strange, share)) for share in (0.1, 0.25))
    both = form(raw, 0.1) + form(mirrored, 0.1)
    both /= np.linalg.norm(both, axis=1, keepdims=True)
    for name, (x, other), metric, forgiven in (
        ("nearest mean, unit length", plain, "none", 0),
        ("square root, unit length", none, "none", 0),
        ("+ shared variance", none, "shared", 0),
        ("+ 0.3 of the distance from the centre forgiven", none, "shared", 0.3),
        ("+ ImageNet's probabilities at a tenth: **what is used**", tenth, "shared", 0.3),
        ("the same with a quarter, 0.5 forgiven", quarter, "shared", 0.5),
        ("what is used, and the mirrored photo", (both, tenth[1]), "shared", 0.3),
        ("what is used, per-class variances shrunk by 30 photos' worth", tenth, "per class", 0.3),
        ("what is used, full shared covariance shrunk to 2 %", tenth, "full", 0.3),
    ):
        print(line(name, x, y, other, metric, forgiven), flush=True)


if __name__ == "__main__":
    main()

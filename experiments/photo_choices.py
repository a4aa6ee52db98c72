"""What the photo classifier's choices are worth, on CIFAR-10's training images; prints the tables of docs/photos.md.

python experiments/photo_choices.py          (PROTOREPLAY_DATA has cifar10 and mnist; some minutes the first time)
python experiments/photo_choices.py adapt    the network's last stage fine-tuned on what is taught (some minutes)
python experiments/photo_choices.py shrink   ways of shrinking photos, on mini-ImageNet's training images (five minutes)
"""

import copy
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from protoreplay import Classifier
from protoreplay.data import cifar10, mini_imagenet, mnist
from protoreplay.encoders import efficientnet, efficientnet_weights, pretrained
from protoreplay.photos.embedding import embed_photos
from protoreplay.photos.feature_cache import FeatureCache
from protoreplay.prototypes.covariance import CovarianceKind
from protoreplay.prototypes.near_duplicates import NEAR
from protoreplay.prototypes.prototype_head import PrototypeHead, fit_head
from protoreplay.prototypes.sums import ClassSums

sys.path.insert(0, str(Path(__file__).parents[1]))  # the network in PyTorch is the one that tests compare with
from tests.encoders import efficientnet_twin

DRAWS, SHOTS, ASKED = 8, 10, 60
SETS = ((0, 2, 4, 6, 8), (0, 1, 2, 3, 4), (5, 6, 7, 8, 9))
CHANNELS = 1280


def features(images: list[np.ndarray]) -> np.ndarray:
    lite2 = pretrained.open_encoder("lite2")
    with FeatureCache(lite2.fingerprint) as cache:
        rows = [one.features for one in embed_photos(lite2, images, cache) if one.features is not None]
    assert len(rows) == len(images)
    return np.stack(rows).astype(float)


def form(rows: np.ndarray, share: float, root: bool = True) -> np.ndarray:
    """Channels and, weighted by `share`, ImageNet's probabilities, which the encoder weights by `SHARE`."""
    rows = np.hstack([rows[:, :CHANNELS], rows[:, CHANNELS:] * share / efficientnet.SHARE])
    rows = np.sqrt(rows) if root else rows
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def split(labels: np.ndarray, known: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1000 + seed)
    orders = [random.permutation(np.flatnonzero(labels == c)) for c in range(10)]
    return (
        np.concatenate([orders[c][:SHOTS] for c in known]),
        np.concatenate([order[SHOTS : SHOTS + ASKED] for order in orders]),
    )


def taught_head(x: np.ndarray, y: np.ndarray, kind: CovarianceKind) -> PrototypeHead:
    classes = {str(c): ClassSums.of(x[y == c], np.flatnonzero(y == c).tolist(), kind=np.float16) for c in np.unique(y)}
    return fit_head(classes, near=NEAR, kind=kind)


def answered(head: PrototypeHead, x: np.ndarray) -> np.ndarray:
    return np.asarray(np.array([int(name) for name in head.names])[head.scores(x)[0].argmax(1)])


def familiarity(head: PrototypeHead, x: np.ndarray, forgiven: float) -> np.ndarray:
    scores, lengths = head.scores(x)
    return np.asarray(forgiven * lengths - head.distances(scores, lengths).min(1))


def line(name: str, x: np.ndarray, y: np.ndarray, strange: np.ndarray, kind: CovarianceKind, forgiven: float) -> str:
    right, areas, refused = [], [], []
    for seed in range(DRAWS):
        taught, asked = split(y, tuple(range(10)), seed)
        right.append((answered(taught_head(x[taught], y[taught], kind), x[asked]) == y[asked]).mean())
    for known in SETS:
        area = []
        for seed in range(DRAWS):
            taught, asked = split(y, known, seed)
            head, inside = taught_head(x[taught], y[taught], kind), np.isin(y[asked], known)
            scores = familiarity(head, x[asked], forgiven)
            area.append(roc_auc_score(inside, scores))
            if known == SETS[0]:
                refused.append((familiarity(head, strange, forgiven) < np.quantile(scores[inside], 0.05)).mean())
        areas.append(np.mean(area))
    found = " / ".join(f"{area:.3f}".lstrip("0") for area in areas)
    return f"| {name} | {100 * np.mean(right):.1f} | {found} | {100 * np.mean(refused):.0f} |"


class LastStage:
    """The last block and convolution of lite2, behind the maps, N x C x 7 x 7, of what stands before them."""

    def __init__(self, images: list[np.ndarray]) -> None:
        network = efficientnet_twin.load("lite2")
        network.fold()
        self.classify, self.layers = network.classify, network.layers[-2:]
        with torch.no_grad():
            before = network.layers[:-2]
            pixels = [np.array(Image.fromarray(image).resize((224, 224), Image.Resampling.BICUBIC)) for image in images]
            parts = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).split(50)
            scaled = [(part - efficientnet_weights.MEAN) / efficientnet_weights.STD for part in parts]
            self.maps = torch.cat([before(part) for part in scaled])
            self.mirrored = torch.cat([before(part.flip(3)) for part in scaled])
            self.likely = (self.classify(self.channels(self.layers, self.maps)) / efficientnet.SOFTNESS).softmax(1)

    def channels(self, layers: nn.Module, maps: Tensor) -> Tensor:
        return torch.cat([layers(part).mean((2, 3)) for part in maps.split(100)])

    def features(self, layers: nn.Module, rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            active = nn.functional.normalize(self.channels(layers, self.maps[rows]), p=1)
        return form(torch.cat([active, efficientnet.SHARE * self.likely[rows]], 1).double().numpy(), efficientnet.SHARE)

    def adapted(self, rows: np.ndarray, targets: Tensor, steps: int, lr: float) -> nn.Module:
        """The stage after steps on photos of all classes together, mirrored every second time, by cosines."""
        layers = copy.deepcopy(self.layers).requires_grad_()
        random = torch.Generator().manual_seed(0)
        start = torch.from_numpy(self.features(layers, rows)[:, :CHANNELS]).float()
        weight = torch.stack([start[targets == c].mean(0) for c in range(10)]).requires_grad_()
        optimizer = torch.optim.Adam([*layers.parameters(), weight], lr=lr)
        for step in range(steps):
            some = torch.randperm(len(targets), generator=random)[:50]
            maps = (self.maps, self.mirrored)[step % 2][rows[some]]
            x = nn.functional.normalize((self.channels(layers, maps) + 1e-6).sqrt())
            scores = 30 * x @ nn.functional.normalize(weight).T
            loss = nn.functional.cross_entropy(scores, targets[some], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return layers


def adapt(images: list[np.ndarray], y: np.ndarray) -> None:
    stage, draws = LastStage(images), 6
    print("| steps | learning rate | accuracy | difference, with its standard error |\n|---|---|---|---|")
    base = np.zeros(draws)
    for steps, lr in ((0, 0.0), (20, 3e-5), (20, 1e-4), (60, 1e-4)):
        found = []
        for seed in range(draws):
            taught, asked = split(y, tuple(range(10)), seed)
            layers = stage.adapted(taught, torch.from_numpy(y[taught]), steps, lr)
            head = taught_head(stage.features(layers, taught), y[taught], "full")
            found.append(100 * (answered(head, stage.features(layers, asked)) == y[asked]).mean())
        base = base if steps else np.array(found)
        print(f"| {steps} | {lr:g} | {np.mean(found):.1f} | {difference(found - base)} |", flush=True)


def shrink() -> None:
    """From 84 pixels to 64, with lite0."""
    data = mini_imagenet.load(84).train
    labels = data.labels.numpy()
    print("| shrunk by | accuracy | difference, with its standard error |\n|---|---|---|")
    base = np.zeros(DRAWS)
    for name in ("LANCZOS", "BICUBIC", "HAMMING", "BILINEAR", "BOX"):
        found = []
        for seed in range(DRAWS):
            random = np.random.default_rng(1000 + seed)
            orders = [random.permutation(np.flatnonzero(labels == c))[: SHOTS + 20] for c in np.unique(labels)]
            small = [
                [
                    np.asarray(
                        Image.fromarray(image.numpy().transpose(1, 2, 0)).resize((64, 64), Image.Resampling[name])
                    )
                    for image in data.images[order]
                ]
                for order in orders
            ]
            classifier = Classifier("lite0@64", cache=False)
            classifier.learn({f"{c:03}": photos[:SHOTS] for c, photos in enumerate(small)})
            asked = [(f"{c:03}", photo) for c, photos in enumerate(small) for photo in photos[SHOTS:]]
            answers = classifier.predict(photo for _, photo in asked)
            right = [answer.choices[0].label == own for (own, _), answer in zip(asked, answers, strict=True)]
            found.append(100 * np.mean(right))
        base = base if name != "LANCZOS" else np.array(found)
        print(f"| {name.lower()} | {np.mean(found):.1f} | {difference(found - base)} |", flush=True)


def difference(apart: np.ndarray) -> str:
    return f"{apart.mean():+.1f} ± {apart.std(ddof=1) / len(apart) ** 0.5:.1f}"


def choices(images: list[np.ndarray], y: np.ndarray) -> None:
    digits = [np.repeat(image.numpy()[0][..., None], 3, 2) for image in mnist.load().train.images[:100]]
    raw, mirrored, strange = features(images), features([image[:, ::-1].copy() for image in images]), features(digits)
    print("| | accuracy | AUROC | digits refused |\n|---|---|---|---|")
    shares = {share: (form(raw, share), form(strange, share)) for share in (0.0, 0.1, 0.25, 0.5, 1.0)}
    both = form(raw, 0.5) + form(mirrored, 0.5)
    both /= np.linalg.norm(both, axis=1, keepdims=True)
    kinds: tuple[tuple[str, tuple[np.ndarray, np.ndarray], CovarianceKind, float], ...] = (
        (
            "channels, unit length, nearest mean",
            (form(raw, 0, root=False), form(strange, 0, root=False)),
            "identity",
            0,
        ),
        ("+ square root", shares[0.0], "identity", 0),
        ("+ variances that classes share", shares[0.0], "diagonal", 0),
        ("+ their covariance instead", shares[0.0], "full", 0),
        ("+ 0.4 of the distance from the centre forgiven", shares[0.0], "full", 0.4),
        ("+ ImageNet's probabilities at a half: **what is used**", shares[0.5], "full", 0.4),
        ("what is used, probabilities at a tenth", shares[0.1], "full", 0.4),
        ("what is used, probabilities at a quarter", shares[0.25], "full", 0.4),
        ("what is used, probabilities at 1", shares[1.0], "full", 0.4),
        ("what is used, 0.2 forgiven", shares[0.5], "full", 0.2),
        ("what is used, 0.6 forgiven", shares[0.5], "full", 0.6),
        ("what is used, variances alone", shares[0.5], "diagonal", 0.4),
        ("what is used, and the mirrored photo", (both, shares[0.5][1]), "full", 0.4),
    )
    for name, (x, other), kind, forgiven in kinds:
        print(line(name, x, y, other, kind, forgiven), flush=True)


def main() -> None:
    if sys.argv[1:] == ["shrink"]:
        shrink()
        return
    data = cifar10.load().train
    labels = data.labels.numpy()
    random = np.random.default_rng(0)
    chosen = np.concatenate([random.permutation(np.flatnonzero(labels == c))[:200] for c in range(10)])
    images = [np.ascontiguousarray(image.numpy().transpose(1, 2, 0)) for image in data.images[chosen]]
    (adapt if sys.argv[1:] == ["adapt"] else choices)(images, labels[chosen])


if __name__ == "__main__":
    main()

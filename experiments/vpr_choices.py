"""What choices inside vpr are worth, on validation streams of split-cifar10: prints the table of docs/vpr-choices.md.

python experiments/vpr_choices.py [SEEDS [WORD]]   (PROTOREPLAY_DATA has cifar10; two minutes a seed on one thread)

With a word, only the choices whose names have it.
"""

import sys
from typing import Any

import torch

from protoreplay import make_method, make_stream
from protoreplay.analysis.ablations import NO_VIEWS

ASKED = 100
"""Evaluation images of a class."""

CHOICES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "Body": [
        ("patches of 5", {"patch": 5}),
        ("patches of 8", {"patch": 8}),
        ("patches of 8, 240 filters, latent 1000", {"patch": 8, "filters": 240, "field_width": 160, "latent": 1000}),
        ("100 filters", {"filters": 100}),
        ("300 filters", {"filters": 300}),
        ("filters that are random patches, no k-means", {"rounds": 0}),
        ("threshold 0", {"threshold": 0.0}),
        ("threshold 0.5", {"threshold": 0.5}),
        ("threshold 1.25", {"threshold": 1.25}),
        ("2 x 2 fields", {"grid": 2, "field_width": 240}),
        ("4 x 4 fields", {"grid": 4, "field_width": 80}),
        ("60 directions in a field", {"field_width": 60}),
        ("features not mirrored", {"mirror": False}),
        ("features not mirrored, every second view is", {"mirror": False, "augment_flip": True}),
        ("latent 1200", {"latent": 1200}),
        ("latent 400", {"latent": 400}),
        ("latent 200", {"latent": 200}),
    ],
    "Prototypes": [
        ("no views", NO_VIEWS),
        ("views: colour 0.2", {"augment_colour": 0.2}),
        ("views: hue not turned", {"augment_hue": 0.0}),
        ("views: hue 0.3", {"augment_hue": 0.3}),
        ("views: hue 1.2", {"augment_hue": 1.2}),
        ("views: shift 2", {"augment_shift": 2}),
        ("views: nothing hidden", {"augment_erase": 0.0}),
        ("images and views weighed alike", {"few": 0.0}),
        ("few 30", {"few": 30.0}),
        ("few 300", {"few": 300.0}),
        ("not shrunk", {"shrink": 1.0}),
        ("shrink 0.5", {"shrink": 0.5}),
        ("ridge 0.35", {"ridge": 0.35}),
        ("ridge 1.5", {"ridge": 1.5}),
        ("three prototypes a class", {"prototypes": 3}),
        ("weighted by variances only", {"weighting": "variances"}),
        ("not weighted", {"weighting": "none"}),
    ],
}


def accuracies(seed: int, settings: dict[str, Any]) -> tuple[float, float]:
    """The mean over the tasks, and after the last, in per cent."""
    stream = make_stream("split-cifar10", seed=seed, evaluation="validation")
    method = make_method("vpr", stream, seed=seed, **settings)
    features, labels, found = [], [], []
    for task in stream:
        method.learn(task)
        images, asked = stream.test_set(task.position)
        rows = torch.cat([(asked == label).nonzero().flatten()[:ASKED] for label in task.classes])
        features.append(method.embed(images[rows]))
        labels.append(asked[rows])
        found.append(
            100 * (method.predict(torch.cat(features), embedded=True) == torch.cat(labels)).float().mean().item()
        )
    return sum(found) / len(found), found[-1]


def measured(seeds: int, settings: dict[str, Any]) -> torch.Tensor:
    return torch.tensor([accuracies(1000 + seed, settings) for seed in range(seeds)])


def main() -> None:
    torch.set_num_threads(1)
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    used = measured(seeds, {})
    print("| | avg | final | difference, with its standard error |\n|---|---|---|---|")
    print(f"| **what is used** | {used[:, 0].mean():.1f} | {used[:, 1].mean():.1f} | |", flush=True)
    for part, choices in CHOICES.items():
        wanted = [choice for choice in choices if word in choice[0]]
        if wanted:
            print(f"| *{part}* | | | |")
        for name, settings in wanted:
            found = measured(seeds, settings)
            mean, error = (found - used).mean(0), (found - used).std(0) / seeds**0.5
            difference = " / ".join(f"{m:+.1f} ± {e:.1f}" for m, e in zip(mean, error, strict=True))
            print(f"| {name} | {found[:, 0].mean():.1f} | {found[:, 1].mean():.1f} | {difference} |", flush=True)


if __name__ == "__main__":
    main()

import os
import shutil

import hypothesis
import pytest
import torch

from protoreplay.data import cache, catalog
from protoreplay.testing import toy_task as toy_task

# No test may depend on the machine's speed: an example may be the first to import something large.
hypothesis.settings.register_profile("protoreplay", deadline=None)
hypothesis.settings.load_profile("protoreplay")


@pytest.fixture(autouse=True)
def _one_thread():
    """As in runs: results to the bit, and two test workers do not fight for two cores."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Encoders and features that tests make stay out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROTOREPLAY_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def _small_cache(tmp_path_factory):
    """A cache with a small stand-in for every dataset: the real shapes and classes, random pixels."""
    place = tmp_path_factory.mktemp("data")
    shapes = {"mnist": ({"": (1, 28, 28)}, 10), "cifar10": ({"": (3, 32, 32)}, 10)}
    shapes |= {"fashion-mnist": ({"": (1, 28, 28)}, 10), "cifar100": ({"": (3, 32, 32)}, 100)}
    shapes["mini-imagenet"] = ({"_32": (3, 32, 32), "_84": (3, 84, 84)}, 100)
    random = torch.Generator().manual_seed(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROTOREPLAY_DATA", str(place))
        for name, (sizes, classes) in shapes.items():
            tensors = {}
            for part, per_class in (("train", 14), ("test", 5)):
                labels = torch.arange(classes).repeat(per_class)
                tensors[f"{part}_labels"] = labels[torch.randperm(len(labels), generator=random)]
                for suffix, shape in sizes.items():
                    pixels = torch.randint(0, 256, (len(labels), *shape), generator=random)
                    tensors[f"{part}_images{suffix}"] = pixels.to(torch.uint8)
            file = catalog.dataset_file(name)
            with file.locked(print) as work:
                file.store(
                    cache.DatasetContent(tensors, tuple(f"class {c}" for c in range(classes)), "a stand-in"), work
                )
    return place


@pytest.fixture
def small_cache(_small_cache, monkeypatch):
    monkeypatch.setenv("PROTOREPLAY_DATA", str(_small_cache))
    return _small_cache


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium, the one of the system."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if binary is None:
        pytest.skip("needs a Chromium: install the package `chromium` of your system")
    quiet = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
    # A camera that shows a test picture.
    quiet += ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    # Chromium refuses to run as root with its sandbox.
    rooted = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=binary, args=[*quiet, *rooted])
        yield launched
        launched.close()

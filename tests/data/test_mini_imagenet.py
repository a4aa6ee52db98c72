import gzip
import struct
import tarfile
import zlib

import numpy as np
import pytest
import torch

from protoreplay.core.errors import UserError
from protoreplay.data import mini_imagenet
from protoreplay.data.catalog import import_dataset
from tests.data import fakes

LABELS = {"train.csv": ["n09", "n01"], "val.csv": ["n05"], "test.csv": ["n03"]}
CLASSES = ["n09", "n01", "n05", "n03"]
PER_CLASS = 10


def pixels(label, index, size=84):
    return np.random.default_rng([int(label[1:]), index]).integers(0, 256, (size, size, 3), dtype=np.uint8)


def copy(top="", per_class=PER_CLASS):
    """A copy in the usual layout; PNGs by the name of JPEGs, so that pixels can be compared."""
    files = {}
    for table, labels in LABELS.items():
        rows = [(f"{label}{i:08}.jpg", label) for label in labels for i in range(per_class)]
        files[top + table] = "\n".join(["filename,label", *map(",".join, rows)]).encode()
        files |= {f"{top}images/{name}": fakes.picture(pixels(name[:3], int(name[3:-4]))) for name, _ in rows}
    return files


def table(*rows):
    return "\n".join(rows).encode()


@pytest.mark.parametrize("top", ["", "mini-imagenet/"])
@pytest.mark.parametrize("form", ["folder", "tar", "tar.gz", "zip"])
def test_import_from_every_form(tmp_path, form, top):
    files = copy(top)
    path = tmp_path / f"copy.{form}"
    if form == "folder":
        fakes.unpacked(path, files)
    elif form == "zip":
        fakes.zipped(path, files)
    else:
        fakes.tar(path, files, "w:gz" if form == "tar.gz" else "w")
    assert import_dataset("mini-imagenet", path) == mini_imagenet.FILE.path
    dataset = mini_imagenet.load(84)
    assert dataset.train.class_names == tuple(CLASSES)
    assert dataset.train.labels.tolist() == [label for label in range(4) for _ in range(8)]
    assert dataset.test.labels.tolist() == [label for label in range(4) for _ in range(2)]
    for label, name in enumerate(CLASSES):
        of_class = [torch.from_numpy(pixels(name, i)).permute(2, 0, 1) for i in range(PER_CLASS)]
        assert torch.equal(dataset.test.images[dataset.test.labels == label], torch.stack(of_class[:2]))
        assert torch.equal(dataset.train.images[dataset.train.labels == label], torch.stack(of_class[2:]))
    small = mini_imagenet.load()
    assert small.train.images.shape == (32, 3, 32, 32)
    assert (small.train.images.float().mean((1, 2, 3)) - dataset.train.images.float().mean((1, 2, 3))).abs().max() < 2


def test_split_and_names_of_the_copy(tmp_path):
    rows = [f"{label}{i:08}.jpg,{label},{'test' if i == 9 else 'train'}" for label in CLASSES for i in range(PER_CLASS)]
    names = [f"{label},name of {label}" for label in sorted(CLASSES)]
    extra = {"split.csv": table("filename,label,role", *rows), "classes.csv": table("wnid,name", *names)}
    import_dataset("mini-imagenet", fakes.unpacked(tmp_path / "copy", copy() | extra))
    dataset = mini_imagenet.load(84)
    assert dataset.train.class_names == tuple(f"name of {label}" for label in CLASSES)
    assert len(dataset.test) == 4
    assert torch.equal(dataset.test.images[1], torch.from_numpy(pixels("n01", 9)).permute(2, 0, 1))


def test_large_images_are_cropped_and_shrunk(tmp_path):
    square = np.zeros((200, 300, 3), np.uint8)
    square[:, 50:250] = (10, 200, 90)  # the central square, so that nothing black is left
    files = copy() | {"images/n0100000000.jpg": fakes.picture(square, "JPEG", quality=95)}
    import_dataset("mini-imagenet", fakes.unpacked(tmp_path / "copy", files))
    image = mini_imagenet.load(84).test.images[2].float()
    assert (image.mean((1, 2)) - torch.tensor([10.0, 200.0, 90.0])).abs().max() < 8


def bomb():
    """A small PNG that claims 100,000 x 100,000 pixels."""
    body = b"IHDR" + struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    tiny = fakes.picture(np.zeros((1, 1, 3)))
    return tiny[:12] + body + struct.pack(">I", zlib.crc32(body)) + tiny[33:]


ONE = "n0300000004.jpg"
SPOILT = {
    "image missing": (
        lambda files: files.pop(f"images/{ONE}"),
        f"incomplete: its tables list images/{ONE}, which does",
    ),
    "leads out": (
        lambda files: files.update({"val.csv": table("filename,label", "../../../etc/passwd,n05")}),
        "its tables list images/../../../etc/passwd, which does not exist",
    ),
    "table missing": (
        lambda files: files.pop("val.csv"),
        "is not mini-imagenet: train.csv, val.csv and test.csv are not",
    ),
    "no columns": (lambda files: files.update({"val.csv": b"a,b\n1,2"}), "val.csv needs a header line"),
    "empty table": (lambda files: files.update({"val.csv": b""}), "val.csv needs a header line"),
    "short line": (lambda files: files.update({"val.csv": b"filename,label\nx"}), "val.csv needs"),
    "binary table": (lambda files: files.update({"val.csv": b"\xff\xfe\0"}), "val.csv is not a table"),
    "twice": (lambda files: files.update({"val.csv": files["test.csv"]}), "twice"),
    "broken image": (lambda files: files.update({f"images/{ONE}": b"?"}), f"images/{ONE}: not a picture"),
    "cut image": (lambda files: files.update({f"images/{ONE}": files[f"images/{ONE}"][:900]}), f"{ONE}: unreadable"),
    "bomb": (lambda files: files.update({f"images/{ONE}": bomb()}), f"images/{ONE}: refused: it has far more pixels"),
    "no role": (
        lambda files: files.update({"split.csv": table("filename,role", f"{ONE},train")}),
        "split.csv: the role of n0900000000.jpg must be train or test, not ''",
    ),
    "only train": (
        lambda files: files.update({t: b"\n".join(files[t].split(b"\n")[:5]) for t in LABELS}),
        "class n09 has no test image",
    ),
}


@pytest.mark.parametrize(("spoil", "message"), SPOILT.values(), ids=SPOILT)
def test_a_bad_copy_is_one_line_and_the_cache_is_unharmed(tmp_path, cache_folder, spoil, message):
    good = copy()
    import_dataset("mini-imagenet", fakes.tar(tmp_path / "good.tar", good, "w"))
    before = mini_imagenet.FILE.path.read_bytes()
    bad = dict(good)
    spoil(bad)
    with pytest.raises(UserError) as error:
        import_dataset("mini-imagenet", fakes.tar(tmp_path / "bad.tar", bad, "w"))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert mini_imagenet.FILE.path.read_bytes() == before
    assert sorted(path.name for path in cache_folder.iterdir()) == [".mini-imagenet.lock", "mini-imagenet.safetensors"]


def test_a_hostile_archive_writes_nothing_anywhere(tmp_path):
    path = fakes.tar(tmp_path / "bad.tar", copy(), "w")
    with tarfile.open(path, "a") as archive:
        archive.addfile(tarfile.TarInfo("../evil"))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=r"refused: its member '\.\./evil' leads out of it"):
        import_dataset("mini-imagenet", path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_truncated_archive(tmp_path):
    path = fakes.tar(tmp_path / "a.tar.gz", copy())
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(UserError, match="is damaged, or no folder"):
        import_dataset("mini-imagenet", path)
    path.write_bytes(gzip.compress(b"nothing"))
    with pytest.raises(UserError, match="is damaged, or no folder"):
        import_dataset("mini-imagenet", path)


def test_wrong_calls(tmp_path):
    for name, path, message in (
        ("mini-imagenet", tmp_path / "absent", "absent does not exist: give a folder, .tar, .tar.gz or .zip"),
        ("mnist", tmp_path, "mnist is not imported: `protoreplay data get mnist` downloads it"),
    ):
        with pytest.raises(UserError, match=message):
            import_dataset(name, path)
    with pytest.raises(UserError, match="size=64: mini-imagenet is stored at 32 and 84 pixels"):
        mini_imagenet.load(64)
    with pytest.raises(
        UserError, match="not on this machine: get it with `protoreplay data import mini-imagenet PATH`"
    ):
        mini_imagenet.load()


def test_tables_may_be_as_large_as_those_of_a_dataset(tmp_path, monkeypatch):
    table = b"filename,label\n" + b"a.jpg,x\n" * 5000
    path = fakes.zipped(tmp_path / "many.zip", {f"{number}/train.csv": table for number in range(60)})
    monkeypatch.setattr(mini_imagenet, "_MOST_TABLE_BYTES", 2**20)
    with pytest.raises(UserError, match="its tables have more than 1 MiB"):
        import_dataset("mini-imagenet", path)
    monkeypatch.setattr(mini_imagenet, "_MOST_ROWS", 4999)
    for name, content in (("rows", table), ("columns", b"," * 200 + b"\n,a\n")):
        files = {f"top/{part}.csv": content for part in ("train", "val", "test")}
        with pytest.raises(UserError, match=f"more than .* {name}"):
            import_dataset("mini-imagenet", fakes.zipped(tmp_path / f"{name}.zip", files))

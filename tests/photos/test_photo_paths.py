"""Photos in tables and in zip files."""

import stat
import zipfile

import numpy as np
import pytest

from protoreplay import Classifier
from protoreplay.core.errors import UserError
from protoreplay.photos import photo_paths, zipped_photos
from tests.photos import fakes


def test_a_table_of_paths_and_classes(tmp_path):
    photos = fakes.photos(tmp_path / "photos", 2)
    table = tmp_path / "labels.csv"
    table.write_text("photos/red/000.png,crow\n\n photos/blue/001.png , a swan\n", "utf-8-sig")
    expected = {"crow": [photos / "red" / "000.png"], "a swan": [photos / "blue" / "001.png"]}
    assert photo_paths.photos_to_learn(None, table) == expected
    table.write_text("Label,probability,Photo\ncrow,0.9,red/000.png\na swan,,blue/001.png\n")
    assert photo_paths.photos_to_learn(photos, table) == expected
    for content, why in {
        "path,class\nred/000.png\n": "line 2: give a path and a class",
        "red/000.png,\n": "line 1: give a path and a class",
        "path,class\n": "has no photos",
    }.items():
        table.write_text(content)
        with pytest.raises(UserError, match=why):
            photo_paths.photos_to_learn(photos, table)
    table.write_bytes(b"\xff\xfe\x00,")
    with pytest.raises(UserError, match="no CSV file of UTF-8 text"):
        photo_paths.photos_to_learn(photos, table)
    with pytest.raises(UserError, match="leave out --class"):
        photo_paths.photos_to_learn(photos, table, "crow")


def packed(path, folder, top=""):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/red/._000.png", b"?")
        archive.writestr(f"{top}red/Thumbs.db", b"?")
        for file in sorted(folder.rglob("*.png")):
            archive.write(file, f"{top}{file.relative_to(folder)}")
    return path


@pytest.mark.parametrize("top", ["", "holiday/"])
def test_a_zip_file_is_as_good_as_its_folder(tiny, tmp_path, top):
    photos = fakes.photos(tmp_path / "photos", 3)
    archive = packed(tmp_path / "photos.ZIP", photos, top)
    one, other = Classifier(tiny), Classifier(tiny)
    one.learn(photo_paths.photos_by_class(photos))
    other.learn(photo_paths.photos_by_class(archive))
    assert np.array_equal(one.model.head.matrix, other.model.head.matrix)
    answers = list(other.predict(photo_paths.walk_photos([archive])))
    assert answers[0].photo == f"{archive}/{top}blue/000.png"
    assert [answer.label for answer in answers] == [name for name in ("blue", "green", "red") for _ in range(3)]
    assert len(photo_paths.photos_by_class(archive, "all")["all"]) == 9
    with pytest.raises(UserError, match="unpack it"):
        photo_paths.only_files(photo_paths.walk_photos([archive]))


def member(name="red/1.png", **attributes):
    about = zipfile.ZipInfo(name)
    for key, value in attributes.items():
        setattr(about, key, value)
    return about


@pytest.mark.parametrize(
    ("about", "why"),
    [
        (member("../1.png"), "leads out of it"),
        (member("/etc/1.png"), "leads out of it"),
        (member("C:\\1.png"), "leads out of it"),
        (member(external_attr=(stat.S_IFLNK | 0o777) << 16), "is a link"),
        (member(compress_type=zipfile.ZIP_BZIP2), "packed in an unusual way"),
    ],
)
def test_harmful_zip_files_are_refused(tmp_path, about, why):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("red/0.png", b"fine")
        archive.writestr(about, b"x")
    with pytest.raises(UserError, match=why):
        photo_paths.photos_by_class(tmp_path / "a.zip")


def test_damaged_and_huge_zip_files(tmp_path, monkeypatch):
    path = tmp_path / "a.zip"
    path.write_bytes(b"no zip file")
    with pytest.raises(UserError, match="no zip file"):
        photo_paths.photos_by_class(path)
    content = np.random.default_rng(0).bytes(500)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("red/1.png", content)
    path.write_bytes(path.read_bytes().replace(content[:50], bytes(50)))
    (photo,) = zipped_photos.ZippedFile(path).photos()
    with pytest.raises(UserError, match=r"unreadable .*CRC"):
        photo.read_bytes()
    monkeypatch.setattr(zipped_photos, "LARGEST_MEMBER", 100)
    with pytest.raises(UserError, match="claims more than"):
        zipped_photos.ZippedFile(path).photos()

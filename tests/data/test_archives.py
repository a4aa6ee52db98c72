import gzip
import io
import stat
import tarfile
import zipfile

import pytest

from protoreplay.core.errors import UserError
from protoreplay.data import archives
from tests.data import fakes

FILES = {"top/a.csv": b"one", "top/images/b.jpg": b"two" * 1000}


@pytest.mark.parametrize(
    "pack",
    [
        lambda path: fakes.unpacked(path / "folder", FILES),
        lambda path: fakes.tar(path / "a.tar", FILES, "w"),
        lambda path: fakes.tar(path / "a.tar.gz", FILES),
        lambda path: fakes.tar(path / "dots.tar.gz", {f"./{name}": content for name, content in FILES.items()}),
        lambda path: fakes.zipped(path / "a.zip", FILES),
    ],
)
def test_the_same_members_from_every_form(tmp_path, pack):
    path = pack(tmp_path)
    assert {name: content() for name, content in archives.archive_members(path)} == FILES
    assert archives.read_members(path, ["top/a.csv"]) == {"top/a.csv": b"one"}
    with pytest.raises(UserError, match=r"has no top/c\.csv"):
        archives.read_members(path, ["top/a.csv", "top/c.csv"])


def consume(path):
    return [content() for _, content in archives.archive_members(path)]


OUTSIDE = ["../evil", "a/../../evil", "/evil", "C:/evil", "..\\evil", "\\evil"]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("pack", [fakes.tar, fakes.zipped])
def test_a_member_that_leads_out_of_the_archive(tmp_path, name, pack):
    path = pack(tmp_path / "a", {"good": b"", name: b"evil"})
    with pytest.raises(UserError, match=r"refused: its member .*evil leads out of it"):
        consume(path)
    assert list(tmp_path.rglob("*")) == [path]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_a_link_or_device_in_a_tar(tmp_path, kind):
    member = tarfile.TarInfo("images")
    member.type, member.linkname = kind, "/etc"
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.addfile(member)
    with pytest.raises(UserError, match="refused: its member images is a link or a device"):
        consume(tmp_path / "a.tar")


def test_a_link_in_a_zip(tmp_path):
    member = zipfile.ZipInfo("images")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(member, "/etc")
    with pytest.raises(UserError, match="refused: its member images is a link or a device"):
        consume(tmp_path / "a.zip")


# A header that claims a terabyte; the long name is one that tarfile would read into memory by itself.
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_tar_member_that_claims_an_absurd_size(tmp_path, kind):
    member = tarfile.TarInfo("huge")
    member.type, member.size = kind, 2**40
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(4096)))
    with pytest.raises(UserError, match="huge is refused: it claims more than 64 MiB"):
        consume(tmp_path / "a.tar.gz")


def test_a_zip_member_that_claims_an_absurd_size(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("huge", bytes(archives.LARGEST + 1))
    with pytest.raises(UserError, match="huge is refused: it claims more than 64 MiB"):
        consume(tmp_path / "a.zip")


def test_a_zip_member_that_is_larger_than_it_claims(tmp_path):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("huge", bytes(1000000))
    claimed = file.getvalue().replace((1000000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    (tmp_path / "a.zip").write_bytes(claimed)
    with pytest.raises(UserError, match="damaged"):
        consume(tmp_path / "a.zip")


def test_gunzip_is_bounded_and_says_what_is_damaged(tmp_path, monkeypatch):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"content"))
    assert archives.gunzip(path) == b"content"
    for broken in (path.read_bytes()[:-9], b"not gzip", gzip.compress(b"content")[:-8] + bytes(8)):
        path.write_bytes(broken)
        with pytest.raises(UserError, match=r"a\.gz is damaged"):
            archives.gunzip(path)
    monkeypatch.setattr(archives, "LARGEST", 1000)
    path.write_bytes(gzip.compress(bytes(1001)))
    with pytest.raises(UserError, match="refused"):
        archives.gunzip(path)


@pytest.mark.parametrize("pack", [fakes.tar, fakes.zipped, lambda path, files: fakes.tar(path, files, "w")])
def test_a_cut_archive_is_an_error_or_lacks_nothing(tmp_path, pack):
    path = pack(tmp_path / "a", FILES)
    whole = path.read_bytes()
    errors = 0
    for cut in range(0, len(whole), 1 + len(whole) // 50):
        path.write_bytes(whole[:cut])
        try:
            assert archives.read_members(path, FILES) == FILES  # a .tar ends in zeros that nobody needs
        except UserError:
            errors += 1
    assert errors > 10


def test_what_is_no_archive(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"hello" * 300)
    for path, message in ((tmp_path / "a.txt", "damaged, or no folder, .tar"), (tmp_path / "b", "No such file")):
        with pytest.raises(UserError, match=message):
            consume(path)

import gzip
import io
import stat
import tarfile
import zipfile

import pytest

from protoreplay.core.errors import UserError
from protoreplay.data import archive_budget, archives, zip_reader
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
    with pytest.raises(UserError, match=r"refused: its member .*evil' leads out of it"):
        consume(path)
    assert list(tmp_path.rglob("*")) == [path]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_a_link_or_device_in_a_tar(tmp_path, kind):
    member = tarfile.TarInfo("images")
    member.type, member.linkname = kind, "/etc"
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.addfile(member)
    with pytest.raises(UserError, match="refused: its member 'images' is a link or a device"):
        consume(tmp_path / "a.tar")


def test_a_link_in_a_zip(tmp_path):
    member = zipfile.ZipInfo("images")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(member, "/etc")
    with pytest.raises(UserError, match="refused: its member 'images' is a link or a device"):
        consume(tmp_path / "a.zip")


# A header that claims a terabyte; the long name is one that tarfile would read into memory by itself.
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_tar_member_that_claims_an_absurd_size(tmp_path, kind):
    member = tarfile.TarInfo("huge")
    member.type, member.size = kind, 2**40
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(4096)))
    with pytest.raises(UserError, match=r"huge.* claims more than 64 (MiB|KiB of names)"):
        consume(tmp_path / "a.tar.gz")


def test_a_zip_member_that_claims_an_absurd_size(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("huge", bytes(archives.LARGEST + 1))
    with pytest.raises(UserError, match="its member 'huge' claims more than 64 MiB"):
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


def padded(content):
    return content + bytes(-len(content) % tarfile.BLOCKSIZE)


def header(name="x", kind=tarfile.REGTYPE, size=0):
    about = tarfile.TarInfo(name)
    about.type, about.size = kind, size
    return about.tobuf(tarfile.GNU_FORMAT)


def pax(text):
    record = f" {text}\n"
    length = next(n for n in range(len(record), len(record) + 9) if n == len(f"{n}{record}"))
    return header("pax", tarfile.XHDTYPE, length) + padded(f"{length}{record}".encode())


HOSTILE_TARS = {
    "a negative size": (header("x", size=-512) + bytes(2048), "negative size"),
    "a negative size that an extended header claims": (pax("size=-1024") + header() + bytes(4096), "negative size"),
    "a chain of headers": (b"".join([pax("a=b")] * 2000) + header(), "headers without end"),
    "a chain of long names": (
        b"".join([header("n", tarfile.GNUTYPE_LONGNAME, 2) + padded(b"ab")] * 2000),
        "without end",
    ),
    "holes": (pax("GNU.sparse.major=1") + header(size=512) + bytes(1024), "has holes"),
    "a header of parts that do not fit": (header("p", tarfile.XHDTYPE, 9) + padded(b"99999 a=b") + header(), "not fit"),
    "a name without end": (pax("path=" + "n" * 5000) + header(), "a name of more than 4096"),
    "more members than there are files": (header() * 4001, "more than 4,000 members"),
}


@pytest.mark.parametrize("name", HOSTILE_TARS)
def test_hostile_tars_end_in_one_line(tmp_path, monkeypatch, name):
    monkeypatch.setattr(archive_budget, "MOST_MEMBERS", 4000)
    content, why = HOSTILE_TARS[name]
    for packed in (content, gzip.compress(content, 1)):
        (tmp_path / "a.tar.gz").write_bytes(packed)
        with pytest.raises(UserError, match=why):
            consume(tmp_path / "a.tar.gz")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_that_is_packed_in_an_unusual_way(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("train.csv", b"filename,label\n")
    with pytest.raises(UserError, match="packed in an unusual way"):
        consume(tmp_path / "a.zip")


def test_an_archive_may_cost_what_one_of_its_size_does(tmp_path, monkeypatch):
    pack = {"a.zip": fakes.zipped, "a.tar.gz": fakes.tar}
    for name, write in pack.items():
        path = write(tmp_path / name, {f"{n}.bin": bytes(1000) for n in range(30)})
        consume(path)
        with monkeypatch.context() as smaller:
            smaller.setattr(archive_budget, "_FREE_BYTES", -20 * path.stat().st_size + 20_000)
            with pytest.raises(UserError, match="unpacks to far more than its own size"):
                consume(path)
        with monkeypatch.context() as shorter:
            shorter.setattr(archive_budget, "_FREE_SECONDS", -1.0)
            with pytest.raises(UserError, match="takes far longer to read"):
                consume(path)


def test_a_zip_whose_list_of_members_is_endless(tmp_path, monkeypatch):
    path = fakes.zipped(tmp_path / "a.zip", {f"{n}.bin": b"" for n in range(100)})
    monkeypatch.setattr(zip_reader, "_LARGEST_READ", 4096)
    with pytest.raises(UserError, match="its list of members is too long"):
        consume(path)

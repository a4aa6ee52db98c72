import os
import stat

import pytest

from protoreplay.core import files
from protoreplay.core.files import (
    make_private_folder,
    read_regular,
    remove_leftovers,
    visible_entries,
    write_whole,
)


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path):
    write_whole(tmp_path / "file", b"old")
    write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_that_cannot_be_moved_into_place_leaves_nothing(tmp_path):
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        write_whole(tmp_path / "folder", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_what_is_hidden_is_not_visible(tmp_path):
    for name in ("b", ".hidden", "B", "a"):
        (tmp_path / name).touch()
    assert [path.name for path in visible_entries(tmp_path)] == ["B", "a", "b"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_mode_and_owner_survive_a_change(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    if os.geteuid() == 0:
        os.chown(path, 1234, 4321)
    path.chmod(mode)
    before = path.stat()
    write_whole(path, b"new")
    after = path.stat()
    assert path.read_bytes() == b"new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_a_new_file_has_the_mode_of_any_other(tmp_path):
    (tmp_path / "other").touch()
    write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_what_is_read_only_or_no_file_is_refused_untouched(tmp_path):
    read_only = tmp_path / "read-only"
    read_only.write_bytes(b"old")
    read_only.chmod(0o444)
    os.mkfifo(tmp_path / "pipe")
    for name, message in (("read-only", "read-only: left as it is"), ("pipe", "not a regular file")):
        with pytest.raises(OSError, match=message) as caught:
            write_whole(tmp_path / name, b"new")
        assert caught.value.filename == str(tmp_path / name)
    assert read_only.read_bytes() == b"old"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(tmp_path / "pipe", 100)  # at once, although nobody writes to it
    with pytest.raises(OSError, match="larger than 2 bytes"):
        read_regular(read_only, 2)


def test_links_are_followed_to_what_they_name(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("link2")
    (tmp_path / "link2").symlink_to("there/file")
    (tmp_path / "dangling").symlink_to("there/new")
    (tmp_path / "loop").symlink_to("loop")
    write_whole(tmp_path / "link", b"new")
    write_whole(tmp_path / "dangling", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "dangling").is_symlink()
    assert {path.name: path.read_bytes() for path in (tmp_path / "there").iterdir()} == {"file": b"new", "new": b"new"}
    with pytest.raises(OSError, match="loop"):
        write_whole(tmp_path / "loop", b"new")


def test_nobody_can_wait_for_the_temporary_file(tmp_path, monkeypatch):
    """Its name is not known before, it is made anew, and while it is written nobody else may read a private file."""
    path, seen = tmp_path / "file", []
    path.write_bytes(b"old")
    path.chmod(0o600)
    move = files.move_into_place

    def looking(temporary, place):
        seen.append((temporary.name, stat.S_IMODE(temporary.stat().st_mode)))
        move(temporary, place)

    monkeypatch.setattr(files, "move_into_place", looking)
    for _ in range(2):
        write_whole(path, b"new")
    assert seen[0][0] != seen[1][0]
    assert [mode for _, mode in seen] == [0o600, 0o600]
    trap = tmp_path / f"{seen[0][0]}"
    trap.symlink_to(tmp_path / "victim")
    monkeypatch.setattr(files.secrets, "token_hex", lambda size: seen[0][0].split(".")[-2])
    with pytest.raises(FileExistsError):
        write_whole(path, b"newer")
    assert not (tmp_path / "victim").exists()


def test_the_folder_is_on_the_disk_after_the_file_has_its_name(tmp_path, monkeypatch):
    calls, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(
        os,
        "fsync",
        lambda file: (calls.append("folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file"), fsync(file)),
    )
    monkeypatch.setattr(type(tmp_path), "replace", lambda one, other: (calls.append("rename"), replace(one, other)))
    write_whole(tmp_path / "file", b"new")
    assert calls == ["file", "rename", "folder"]


def test_leftovers_of_killed_writers_of_this_file_are_removed(tmp_path):
    for name in (".m.0123456789abcdef.tmp", ".m.4711.tmp", ".m2.0123456789abcdef.tmp", ".m.notes.tmp", "m.tmp"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "m")
    assert {path.name for path in tmp_path.iterdir()} == {".m2.0123456789abcdef.tmp", ".m.notes.tmp", "m.tmp"}
    long = tmp_path / ("x" * 255)
    write_whole(long, b"a name as long as may be")
    assert long.read_bytes() == b"a name as long as may be"


def test_private_folders_are_private_also_those_above(tmp_path):
    make_private_folder(tmp_path / "a" / "b")
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b")] == [0o700, 0o700]

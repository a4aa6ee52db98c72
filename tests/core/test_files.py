import pytest

from protoreplay.core.files import visible_entries, write_whole


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

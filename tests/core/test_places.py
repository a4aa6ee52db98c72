import platformdirs
import pytest

from protoreplay.core.places import cache_folder, data_folder

USUAL = platformdirs.user_cache_path("protoreplay")


@pytest.mark.parametrize(
    ("place", "variable", "usual"),
    [(data_folder, "PROTOREPLAY_DATA", USUAL / "data"), (cache_folder, "PROTOREPLAY_CACHE", USUAL)],
)
def test_where_a_variable_says_or_in_the_cache_of_the_user(monkeypatch, tmp_path, place, variable, usual):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, "here")
    assert place() == tmp_path / "here"
    monkeypatch.setenv(variable, "~/there")
    assert place() == tmp_path / "there"
    monkeypatch.undo()
    monkeypatch.delenv(variable, raising=False)
    assert place() == usual

import pytest

from protoreplay.data import catalog, mnist
from tests.data import fakes
from tests.data.test_mini_imagenet import copy


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    """No test sees the cache of the user."""
    monkeypatch.setenv("PROTOREPLAY_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def data(protoreplay):
    """Exit code, stdout and stderr of a `protoreplay data` command."""
    return lambda *words: protoreplay("data", *words)


def test_a_life_of_the_cache(data, tmp_path, cache_folder):
    _, out, _ = data("ls")
    assert [line.split()[0] for line in out.splitlines()] == [*catalog.DATASETS, "in"]
    assert "not here: protoreplay data get mnist" in out
    assert data("path", "mnist") == (
        2,
        "",
        "protoreplay: mnist is not on this machine: get it with `protoreplay data get mnist`\n",
    )
    catalog.download_dataset("mnist", sources=(fakes.source(),))
    code, out, err = data("import", "mini-imagenet", fakes.unpacked(tmp_path / "copy", copy()))
    assert (code, out) == (0, f"{cache_folder / 'mini-imagenet.safetensors'}\n")
    assert err.splitlines() == ["mini-imagenet: 40 images", "mini-imagenet: 40 images: 100 %"]
    _, out, _ = data("ls")
    assert "0 MB from a fake" in out
    assert "1 MB from a copy, copy" in out
    assert data("path", "mnist") == (0, f"{mnist.FILE.path}\n", "")
    assert data("get", "mnist") == (0, f"{mnist.FILE.path}\n", "mnist is in the cache already and intact\n")
    assert data("verify") == (0, "mnist: intact\nmini-imagenet: intact\n", "")


def test_damage_is_one_line_that_names_the_fix(data):
    path = catalog.download_dataset("mnist", sources=(fakes.source(),))
    content = bytearray(path.read_bytes())
    content[-1000] ^= 1
    path.write_bytes(content)
    for words in (("verify", "mnist"), ("verify",)):
        code, out, err = data(*words)
        assert (code, out) == (2, "")
        assert err == (
            f"protoreplay: {path} is damaged (wrong bytes in train_images): `protoreplay data get mnist` replaces it\n"
        )
    path.write_bytes(b"?")
    assert "damaged" in data("ls")[1]
    assert data("path", "mnist")[0] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["get", "mnits"], "unknown dataset 'mnits' (did you mean mnist?)"),
        (["verify", "digits"], "digits needs no download"),
        (["verify", "cifar10"], "cifar10 is not on this machine"),
        (["import", "mini-imagenet", "/absent"], "/absent does not exist"),
    ],
)
def test_wrong_calls_are_one_line(data, words, message):
    code, _, err = data(*words)
    assert code == 2
    assert err.startswith(f"protoreplay: {message}")
    assert err.count("\n") == 1

"""Words that a slip of the finger makes of a command: one line each, and nothing is changed."""

import pytest

from tests.photos import fakes


@pytest.fixture
def model(protoreplay, tiny, tmp_path):
    fakes.photos(tmp_path / "photos", 2)
    assert protoreplay("learn", "m", "photos", "--encoder", tiny)[0] == 0
    return tmp_path / "m"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["forget", "m", ""], "unknown class ''"),
        (["forget", "", "red"], ". is a folder"),
        (["rename", ".", "red", "b"], ". is a folder"),
        (["rename", "m", "red", ""], "class name ''"),
        (["show", "."], "is a folder: give the model"),
        (["learn", ".", "photos"], ". is a folder"),
        (["merge", "m", "-o", "."], ". is a folder"),
        (["export", "m", "-o", "."], ". is a folder"),
        (["explain", "m", "photos/red/000.png", "-o", ".", "--force"], "ends in .png"),
        (["serve", "new", "--host", "a..b"], "cannot listen on a..b"),
        (["serve", "new", "--host", "x" * 64], "cannot listen on"),
        (["serve", "new", "--host", "::1", "--no-token", "--token", "long enough"], "give one of the two"),
        (["bench", "split-digits", "--set", "latent=1000000000"], "latent=1000000000: at most 10,000,000"),
        (["bench", "split-digits", "--vary", f"latent=1,{'9' * 5000}"], "at most 10,000,000"),
        (["bench", "split-digits", "--seeds", "1000000000"], "at most 100,000 seeds"),
        (["bench", "split-digits", "--seeds", "9" * 5000], "write how many"),
    ],
)
def test_one_line(protoreplay, model, words, why):
    before = model.read_bytes()
    code, _, err = protoreplay(*words)
    assert (code, len(err.splitlines())) == (2, 1), err
    assert why in err
    assert len(err) < 1000
    assert model.read_bytes() == before
    assert sorted(path.name for path in model.parent.iterdir() if not path.name.startswith(".")) == ["m", "photos"]


def test_a_path_that_is_too_long_in_a_list_is_named_and_the_others_are_answered(protoreplay, model, tiny):
    good = model.parent / "photos" / "red" / "000.png"
    model.with_name("list").write_text(f"{'x' * 5000}\n{good}\n{'d/' * 3000}a.zip\n")
    code, out, err = protoreplay("predict", "m", "--list", "list", "--format", "csv", "--encoder", tiny)
    assert (code, len(out.splitlines())) == (2, 4)
    assert out.splitlines()[2].startswith(str(good))
    assert out.count("File name too long") == 2
    assert err.splitlines()[-1] == "protoreplay: 2 of 3 photos could not be read"

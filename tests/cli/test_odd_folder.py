"""A folder with every oddity goes through the commands: nothing is lost, and each odd file is named once."""

import csv
import json
from collections import Counter

from protoreplay.photos import model_file
from tests.photos.odd_folder import make_odd_folder


def named(text, odd):
    """How often each file of the folder is named at the beginning of a line."""
    lines = [line.split(": ")[0] for line in text.splitlines()]
    return Counter(line.removeprefix(f"{odd.path}/") for line in lines if line.startswith(f"{odd.path}/"))


def test_every_oddity_goes_through_learn_predict_and_evaluate(protoreplay, tiny, tmp_path):
    odd = make_odd_folder(tmp_path / "odd")
    code, out, err = protoreplay("learn", "m", odd.path, "--encoder", tiny)
    assert code == 0, err
    assert out.splitlines()[:2] == ["blue 🐦: 5 photos learned", "red: 10 photos learned"]
    assert sum(own.count for own in model_file.read_model(tmp_path / "m").classes.values()) == len(odd.readable)
    assert {name: times for name, times in named(err, odd).items() if name in odd.broken} == dict.fromkeys(
        odd.broken, 1
    )
    assert not any(name.rsplit("/")[-1] in err for name in odd.quiet)
    assert f"{odd.path}/red: 1 of " in err, "photos of nested folders are taken, and it is said"
    assert f"{odd.path}/empty has no photos of its own: passed over" in err
    assert "clip.mp4: cannot be read, a video: save a picture of it as JPEG" in err
    assert "more.zip: cannot be read, an archive: unpack it" in err

    code, out, err = protoreplay("predict", "m", odd.path)
    assert (code, named(out, odd)) == (2, Counter(odd.readable + odd.broken)), "each once, and nothing else"
    assert err.splitlines()[-1] == f"protoreplay: {len(odd.broken)} of {len(odd.readable + odd.broken)} photos" + (
        " could not be read"
    )

    code, out, err = protoreplay("evaluate", "m", odd.path, "--wrong", "wrong.csv", "--format", "json")
    score = json.loads(out)
    assert (code, score["photos"], score["unreadable"]) == (0, len(odd.readable), len(odd.broken))
    assert {name for name in named(err, odd) if name in odd.broken} == set(odd.broken)
    with (tmp_path / "wrong.csv").open(encoding="utf-8", newline="") as file:
        listed = list(csv.DictReader(file))
    told = sum(own["refused"] + own["wrong"] for own in score["by_class"].values())
    assert len(listed) == told

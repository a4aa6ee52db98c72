import json
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from protoreplay.photos import encoder_list, model_file
from tests.photos import fakes


@pytest.fixture
def model(protoreplay, tiny, tmp_path):
    fakes.photos(tmp_path / "photos")
    assert protoreplay("learn", "m", "photos", "--encoder", tiny, "--keep", 2)[0] == 0
    return tmp_path / "m"


def test_steps_go_back_and_forth_between_commands(protoreplay, model):
    before = model_file.model_to_bytes(model_file.read_model(model))
    code, out, _ = protoreplay("unite", "m", "red", "blue")
    assert (code, out) == (0, "m: 'red' is a part of 'blue' now, 12 photos\n")
    code, out, _ = protoreplay("undo", "m")
    assert code == 0
    assert "unite  blue (12); 1 before it, 1 to redo" in out
    assert model_file.model_to_bytes(model_file.read_model(model)) == before
    assert "done again" in protoreplay("redo", "m")[1]
    assert sorted(model_file.read_model(model).classes) == ["blue", "green"]
    assert protoreplay("redo", "m")[::2] == (2, "protoreplay: there is nothing to redo\n")
    assert protoreplay("forget", "m", "green")[0] == 0
    assert protoreplay("undo", "m")[::2] == (2, "protoreplay: there is nothing to undo\n")


def test_one_photo_is_forgotten(protoreplay, model):
    assert protoreplay("forget", "m", "--photo", "photos/red/000.png")[1] == "m: forgot one photo of 'red', 5 left\n"
    assert protoreplay("forget", "m", "blue", "--photo", "photos/red/001.png")[0] == 2
    assert "does not exist" in protoreplay("forget", "m", "--photo", "absent.png")[2]
    assert protoreplay("forget", "m")[2] == "protoreplay: give a class to forget, or --photo PATH\n"


def test_a_table_and_a_zip_file(protoreplay, model, tiny, tmp_path):
    Path("labels.csv").write_text("photos/red/000.png,rot\nphotos/red/001.png,rot\nphotos/blue/000.png,blau\n")
    code, out, _ = protoreplay("learn", "n", "--labels", "labels.csv", "--encoder", tiny)
    assert (code, out.splitlines()[:2]) == (0, ["rot: 2 photos learned", out.splitlines()[1]])
    with zipfile.ZipFile("photos.zip", "w") as archive:
        for file in sorted((tmp_path / "photos").rglob("*.png")):
            archive.write(file, file.relative_to(tmp_path / "photos"))
    assert "6 were known" in protoreplay("learn", "m", "photos.zip", "--encoder", tiny)[1].splitlines()[0]
    out = protoreplay("predict", "m", "photos.zip", "--encoder", tiny, "--format", "json")[1]
    assert json.loads(out.splitlines()[0])["photo"] == "photos.zip/blue/000.png"
    assert "unpack it" in protoreplay("predict", "m", "photos.zip", "--encoder", tiny, "--work", "w")[2]
    assert "--labels FILE.csv" in protoreplay("learn", "m")[2]


def test_a_picture_of_why(protoreplay, model, tiny, tmp_path):
    code, out, _ = protoreplay("explain", "m", "--encoder", tiny, "photos/red/000.png", "-o", "why.png")
    assert code == 0
    assert out.splitlines()[-1] == "why.png"
    assert out.count("  like ") == 5
    with Image.open(tmp_path / "why.png") as picture:
        assert picture.size[0] == 780
    for words, why in {
        ("photos/red/000.png", "-o", "why.png"): "why.png is there already",
        ("photos/red/000.png", "-o", "m.txt"): "ends in .png",
        ("labels.csv", "-o", "other.png"): "labels.csv: does not exist",
    }.items():
        code, _, err = protoreplay("explain", "m", "--encoder", tiny, *words)
        assert code == 2
        assert why in err
        assert err.count("\n") == 1


def test_encoders_are_measured(protoreplay, tiny, monkeypatch):
    monkeypatch.setattr(encoder_list, "SIZES", {})
    code, out, _ = protoreplay("encoders", tiny, "absent.onnx")
    rows = out.splitlines()
    assert code == 0
    assert rows[1].startswith(tiny)
    assert "on one core" in rows[1]
    assert "No such file" in rows[2]


def test_recorded_accuracies_are_those_of_the_record():
    record = json.loads(Path(__file__).parents[2].joinpath("results/photos/encoders.json").read_text())
    assert record["result"]["mean"] == pytest.approx(encoder_list.RECORDED)

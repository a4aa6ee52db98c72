import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from protoreplay import cli
from protoreplay.photos import model_file
from tests.data.fakes import picture
from tests.data.test_mini_imagenet import bomb
from tests.photos import fakes

LOOKING = ("learn", "predict", "evaluate", "export")
"""Commands that look at photos, for which an encoder that does not come with the package must be named."""


@pytest.fixture
def run(monkeypatch, capsys, tiny):
    """A command as a shell would give it: exit code, lines of output, lines of errors."""

    def call(*words):
        if words[0] in LOOKING and "--encoder" not in words:
            words = (*words, "--encoder", tiny)
        monkeypatch.setattr(sys, "argv", ["protoreplay", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        said = capsys.readouterr()
        return stop.value.code or 0, said.out.splitlines(), said.err.splitlines()

    return call


@pytest.fixture
def model(run, tiny, tmp_path):
    fakes.photos(tmp_path / "photos")
    assert run("learn", tmp_path / "m", tmp_path / "photos", "--encoder", tiny)[0] == 0
    return tmp_path / "m"


def test_the_whole_story(run, model, tmp_path):
    asked = fakes.photos(tmp_path / "asked", 3, start=40)
    code, out, _ = run("predict", model, asked)
    assert code == 0
    assert len(out) == 9
    assert out[0].startswith(f"{asked / 'blue' / '040.png'}: blue ")
    more = fakes.photos(tmp_path / "more", colours=("yellow",))
    code, out, _ = run("learn", model, more / "yellow", "--class", "gold", "--keep", 1)
    assert out == ["gold: 6 photos learned", out[-1]]
    assert "4 classes" in out[-1]
    code, out, _ = run("show", model, "--history")
    assert "4 classes, 24 photos seen" in out[1]
    assert [line.split()[0] for line in out[4:8]] == ["blue", "gold", "green", "red"]
    assert out[-1].endswith("learn  gold (6)")
    assert run("rename", model, "gold", "yellow")[0] == 0
    code, out, _ = run(
        "evaluate", model, fakes.photos(tmp_path / "test", 4, 70, tuple(fakes.COLOURS)), "--format", "json"
    )
    score = json.loads(out[0])
    assert score["accuracy"] == 1
    assert score["photos"] == 16
    assert run("forget", model, "yellow")[0] == 0
    assert b"yellow" not in model.read_bytes()
    code, out, _ = run("evaluate", model, tmp_path / "test")
    assert out[0].startswith("12 photos of known classes: likeliest class right 100.0%")
    assert out[1].startswith("4 photos of no known class: 'I do not know' ")


def test_formats(run, model, tmp_path):
    folder = tmp_path / "a,b"
    fakes.photos(folder, 2, 40, ("red",))
    (folder / "red" / "zz.jpg").write_bytes(b"?")
    code, out, err = run("predict", model, folder, "--format", "csv")
    assert code == 2
    assert err[-1] == "protoreplay: 1 of 3 photos could not be read"
    rows = list(csv.DictReader(io.StringIO("\n".join(out))))
    assert [row["label"] for row in rows] == ["red", "red", ""]
    assert rows[2]["error"] == "not a picture of a known format: save it as JPEG or PNG"
    code, out, _ = run("predict", model, folder, "--format", "json")
    answers = [json.loads(line) for line in out]
    assert answers[0]["label"] == "red"
    assert answers[0]["choices"][0]["label"] == "red"
    assert "error" in answers[2]
    (tmp_path / "list").write_text(f"{folder}/red/040.png\n\n{folder}/red/041.png\n")
    code, out, _ = run("predict", model, "--list", tmp_path / "list", "--work", tmp_path / "work", "--format", "csv")
    assert (code, len(out)) == (0, 3)


def test_merge_and_export(run, model, tiny, tmp_path):
    more = fakes.photos(tmp_path / "more", colours=("yellow",))
    run("learn", tmp_path / "n", more, "--encoder", tiny)
    assert run("merge", model, tmp_path / "n", "-o", tmp_path / "both")[1] == [f"{tmp_path / 'both'}: 4 classes"]
    run("learn", model, more)
    one, other = (model_file.read_model(path).head for path in (model, tmp_path / "both"))
    assert np.array_equal(one.matrix, other.matrix)
    assert run("export", model, "-o", tmp_path / "m.onnx")[0] == 0
    assert (tmp_path / "m.onnx").stat().st_size > 1000


def test_merged_names_that_are_all_but_the_same_are_asked_about(run, model, tiny, tmp_path):
    fakes.photos(tmp_path / "more", colours=("yellow",))
    (tmp_path / "more" / "yellow").rename(tmp_path / "more" / "Red")
    assert run("learn", tmp_path / "n", tmp_path / "more", "--encoder", tiny)[0] == 0
    code, _, err = run("merge", model, tmp_path / "n", "-o", tmp_path / "both")
    assert (code, (tmp_path / "both").exists()) == (2, False)
    assert "'Red' and 'red' differ in case, spaces or accents alone" in err[-1]
    assert run("merge", model, tmp_path / "n", "-o", tmp_path / "both", "--yes")[1] == [
        f"{tmp_path / 'both'}: 4 classes"
    ]


def test_answers_that_go_to_a_file_show_progress_on_the_terminal(model, tiny, tmp_path):
    terminal, its_end = os.openpty()
    asked = ["predict", str(model), str(tmp_path / "photos"), "--format", "csv", "--encoder", tiny]
    words = [sys.executable, "-m", "protoreplay.cli", *asked]
    with (tmp_path / "out.csv").open("wb") as file:
        process = subprocess.Popen(words, stdout=file, stderr=its_end, env={**os.environ, "TERM": "xterm"})
    os.close(its_end)
    said = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # how Linux tells the end of a terminal
            break
        if not part:
            break
        said += part
    os.close(terminal)
    assert process.wait(60) == 0, said.decode()
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 19
    assert b"18/18" in said or b"100%" in said


def test_teaching_the_same_folder_again_changes_nothing(run, model, tmp_path):
    before = model_file.read_model(model)
    _, out, _ = run("learn", model, tmp_path / "photos")
    assert out[0] == "blue: 0 photos learned, 6 were known"
    after = model_file.read_model(model)
    assert after.history == before.history
    assert np.array_equal(after.head.matrix, before.head.matrix)


def test_every_odd_picture_is_learned_or_named(run, model, tmp_path):
    good = fakes.photo("red", 1)
    animated = io.BytesIO()
    good.save(animated, "GIF", save_all=True, append_images=[fakes.photo("blue", 2)])
    noise = picture(np.random.default_rng(0).integers(0, 256, (90, 90, 3)))
    readable = {
        "animated.gif": animated.getvalue(),
        "cmyk.jpg": picture(good.convert("CMYK"), "JPEG"),
        "deep.png": picture(Image.fromarray(np.full((40, 60), 90 * 256, np.uint16))),
        "pixel.png": picture(good.resize((1, 1))),
        "long.png": picture(good.resize((1, 900))),
    }
    broken = {"empty.png": b"", "text.jpg": b"text", "cut.png": noise[:500], "bomb.png": bomb()}
    folder = tmp_path / "odd" / "things"
    folder.mkdir(parents=True)
    for name, content in (readable | broken).items():
        (folder / name).write_bytes(content)
    os.mkfifo(folder / "pipe")
    code, out, err = run("learn", model, tmp_path / "odd")
    assert code == 0
    assert out[0] == "things: 5 photos learned"
    told = [line for line in err if line.startswith(str(folder))]
    assert [line.split(":")[0].rsplit("/")[-1] for line in told] == [
        "bomb.png",
        "cut.png",
        "pipe",
        "text.jpg",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["learn", "M", "absent"], "absent is not a folder: give one with a sub-folder of photos per class"),
        (["learn", "M", "flat"], "flat has no sub-folders: put the photos of each class into one of its own"),
        (["learn", "M", "hollow"], "hollow has no photos: put some in"),
        (["export", "M", "-o", "M"], "m is an input of this command and would be overwritten: give another name"),
        (["export", "M", "-o", "m", "--force"], "m is an input of this command and would be overwritten"),
        (["export", "M", "-o", "flat/1.png"], "flat/1.png already exists: give another name, or --force"),
        (["merge", "M", "-o", "flat/1.png"], "flat/1.png already exists"),
        (["merge", "M", "cut", "-o", "cut", "--force"], "cut is an input of this command and would be overwritten"),
        (["evaluate", "M", "photos", "--wrong", "flat/1.png"], "flat/1.png already exists"),
        (["learn", "M", "flat", "--class", "R\u00e9d"], "'R\u00e9d' and 'red' differ in case, spaces or accents alone"),
        (["rename", "M", "blue", "re D"], "'re D' and 'red' differ in case, spaces or accents alone"),
        (["learn", "M", "spoilt"], "class 'bad' has no readable photo"),
        (["learn", "M", "newline"], "no newlines or control characters"),
        (["learn", "M", "flat", "--class", "x" * 1000], "1 to 200 characters"),
        (["learn", "M", "photos", "--encoder", "lite9"], "unknown encoder 'lite9'"),
        (["learn", "M", "photos", "--encoder", "other.onnx"], "features of two encoders cannot be mixed"),
        (["learn", "M", "photos", "--unknown", "0.9"], "should be less than or equal to 0.5"),
        (["learn", "nowhere/m", "photos", "--encoder", "other.onnx"], "nowhere is not a folder: make it first"),
        (["learn", "cut", "photos"], "cut is not a model of protoreplay's, or only a part of one"),
        (["learn", "flipped", "photos"], "flipped is damaged"),
        (["learn", "photos/red/000.png", "photos"], "is not a model of protoreplay's"),
        (["predict", "M"], "give photos, folders, or --list FILE"),
        (["predict", "M", "hollow"], "there are no photos in what was given"),
        (["predict", "M", "photos", "--format", "xml"], "unknown format 'xml'"),
        (["predict", "M", "photos", "--engine", "ray"], "--engine ray needs --work DIR"),
        (["predict", "M", "--list", "absent"], "absent: No such file or directory: give a file with one path a line"),
        (["predict", "absent", "photos"], "absent does not exist: `protoreplay learn absent FOLDER` makes it"),
        (["show", "photos"], "photos is a folder: give the model's file"),
        (["forget", "M", "rad"], "unknown class 'rad' (did you mean red?)"),
        (["rename", "M", "red", "a\nb"], "no newlines or control characters"),
        (["merge", "M", "cut", "-o", "out"], "cut is not a model"),
        (["evaluate", "M", "flat"], "flat has no sub-folders"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(run, model, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    for place, files in {"flat": ["1.png"], "hollow/nothing": [], "spoilt/bad": [], "newline/a\nb": ["1.png"]}.items():
        (tmp_path / place).mkdir(parents=True)
        for name in files:
            fakes.photo("red", 5).save(tmp_path / place / name)
    (tmp_path / "spoilt" / "bad" / "1.png").write_bytes(b"?")
    fakes.tiny_encoder(tmp_path / "other.onnx", seed=9)
    content = model.read_bytes()
    (tmp_path / "cut").write_bytes(content[:-100])
    (tmp_path / "flipped").write_bytes(content[:-100] + bytes([content[-100] ^ 4]) + content[-99:])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    code, out, err = run(*("m" if word == "M" else word for word in words))
    assert code == 2
    assert out == []
    assert message in err[-1]
    assert err[-1].startswith("protoreplay: ")
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"}
    assert after == {path: content for path, content in before.items() if path.suffix != ".lock"}


def test_one_photo_makes_a_class(run, tiny, tmp_path):
    folder = fakes.photos(tmp_path / "one", 1, colours=("red",))
    _, out, _ = run("learn", tmp_path / "m", folder, "--encoder", tiny)
    assert out[0] == "red: 1 photo learned"
    assert run("predict", tmp_path / "m", folder)[1][0].endswith("red 100%")
    assert "never says 'I do not know' yet" in run("show", tmp_path / "m")[1][2]


def teaching(model, folder, tiny):
    """`learn` in a process of its own."""
    words = [sys.executable, "-m", "protoreplay.cli", "learn", str(model), str(folder), "--encoder", tiny, "--no-cache"]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def test_two_lessons_at_once_both_stay(tiny, tmp_path):
    folders = [fakes.photos(tmp_path / colour, 4, colours=(colour,)) for colour in ("red", "blue")]
    both = [teaching(tmp_path / "m", folder, tiny) for folder in folders]
    assert [process.wait(300) for process in both] == [0, 0]
    for process in both:
        process.stderr.close()
    assert sorted(model_file.read_model(tmp_path / "m").classes) == ["blue", "red"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_killed_at_random_moments_leaves_the_old_or_the_new(tiny, tmp_path, model):
    """20 kills, most of them around the moment of writing, in a child that does nothing but teach."""
    random = np.random.default_rng(0)
    old, lesson = model.read_bytes(), fakes.photos(tmp_path / "more", 3, colours=("yellow",))
    names = {"old": 0, "new": 0}
    for _ in range(20):
        model.write_bytes(old)
        child = os.fork()
        if child == 0:
            from protoreplay.photos.classifier import Classifier

            classifier = Classifier.load(model, tiny, cache=False)
            prepared = classifier.prepare(fakes.pixels(lesson))
            (tmp_path / "ready").touch()
            with model_file.model_lock(model, print):
                classifier.learn_prepared(prepared)
                classifier.save(model)
            os._exit(0)
        while not (tmp_path / "ready").exists():
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        (tmp_path / "ready").unlink()
        names["new" if "yellow" in model_file.read_model(model).classes else "old"] += 1
    assert sum(names.values()) == 20
    assert names["old"] > 0

import json
import multiprocessing
import re
from dataclasses import replace

import numpy as np
import pytest
import safetensors

from protoreplay.core.errors import UserError
from protoreplay.photos import model_file
from protoreplay.photos.photo_class import PhotoClass
from protoreplay.photos.photo_model import PhotoModel


def a_model(keep=2, names=("cat", "dog 🐕")):
    random = np.random.default_rng(0)
    model = PhotoModel("tiny", "f" * 64, keep=keep)
    for start, name in enumerate(names):
        keys = list(range(100 * start, 100 * start + 5))
        thumbnails = {key: b"jpeg" + bytes([key]) for key in keys}
        model = model.learn({name: PhotoClass.of(random.random((5, 6)), keys, thumbnails=thumbnails)})
    return model


def rewritten(content, change):
    """The file with another description, whose digest is right."""
    import hashlib

    import safetensors.numpy

    length = int.from_bytes(content[:8], "little")
    text = json.loads(content[8 : 8 + length])["__metadata__"]["protoreplay"].partition(" ")[2]
    about = json.loads(text)
    change(about)
    text = json.dumps(about, ensure_ascii=False)
    metadata = {"protoreplay": f"{hashlib.sha256(text.encode()).hexdigest()} {text}"}
    return safetensors.numpy.save(safetensors.numpy.load(content), metadata)


def test_it_comes_back_as_it_was(tmp_path):
    model, path = a_model(), tmp_path / "m"
    model_file.write_model(model, path)
    back = model_file.read_model(path)
    assert model_file.model_to_bytes(back) == path.read_bytes()
    assert back.history == model.history
    assert back.classes["dog 🐕"].thumbnails == model.classes["dog 🐕"].thumbnails
    assert np.array_equal(back.head.matrix, model.head.matrix)
    assert back.head.calibration == model.head.calibration
    empty = PhotoModel("tiny", "f" * 64)
    assert model_file.model_from_bytes(model_file.model_to_bytes(empty), "x") == empty


def test_a_person_can_read_its_beginning(tmp_path):
    model_file.write_model(a_model(), tmp_path / "m")
    with safetensors.safe_open(tmp_path / "m", "np") as file:
        about = json.loads(file.metadata()["protoreplay"].partition(" ")[2])
    assert about["classes"] == {"cat": 5, "dog 🐕": 5}
    assert about["encoder"]["fingerprint"] == "f" * 64
    assert [event["classes"] for event in about["history"]] == [{"cat": 5}, {"dog 🐕": 5}]


def test_every_cut_and_many_flips_are_noticed():
    content = model_file.model_to_bytes(a_model())
    random = np.random.default_rng(0)
    spoilt = [content[:cut] for cut in random.integers(0, len(content), 40)] + [b"", b"text", content + b"more"]
    for place in random.integers(0, len(content), 300):
        changed = bytearray(content)
        changed[place] ^= 1 << random.integers(8)
        spoilt.append(bytes(changed))
    refusals = []
    for one in spoilt:
        try:
            back = model_file.model_from_bytes(one, "spoilt")
        except UserError as error:
            refusals.append(str(error))
        else:  # spaces behind the header, for one, mean nothing
            assert model_file.model_to_bytes(back) == content
    assert len(refusals) > 330
    assert all(re.fullmatch("spoilt is (damaged|not a model).*", line) for line in refusals)


def test_an_older_file_opens_and_a_newer_one_is_refused():
    content = model_file.model_to_bytes(a_model())

    def older(about):
        for key in ("keep", "unknown", "calibration"):
            del about[key]

    back = model_file.model_from_bytes(rewritten(content, older), "old")
    assert (back.keep, back.unknown) == (0, 0.05)
    assert np.array_equal(back.head.matrix, a_model().head.matrix)
    with pytest.raises(UserError, match=r"was written by a newer protoreplay \(format 3\): upgrade"):
        model_file.model_from_bytes(rewritten(content, lambda about: about.update(format=3)), "new")
    with pytest.raises(UserError, match="old was written by a protoreplay whose models this one cannot use: teach"):
        model_file.model_from_bytes(rewritten(content, lambda about: about.update(format=1)), "old")


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(UserError, match="does not exist: `protoreplay learn"):
        model_file.read_model(tmp_path / "absent")
    with pytest.raises(UserError, match="is a folder"):
        model_file.read_model(tmp_path)
    with (
        pytest.raises(UserError, match="is not a folder: make it first"),
        model_file.model_lock(tmp_path / "a" / "m", print),
    ):
        pass


def _add(path, number):
    with model_file.model_lock(path, lambda line: None):
        model = model_file.read_model(path)
        model_file.write_model(model.learn({f"class {number}": PhotoClass.of(np.ones((1, 6)), [number])}), path)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_many_writers_lose_nothing(tmp_path):
    path = tmp_path / "m"
    model_file.write_model(replace(a_model(), history=()), path)
    workers = [multiprocessing.get_context("fork").Process(target=_add, args=(path, n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
    assert len(model_file.read_model(path).classes) == 6


def deep(about):
    about["history"] = json.loads("[" * 500 + "]" * 500)


FORGED = {
    "a huge count": lambda about: about["classes"].update(cat=10**12),
    "a count of none": lambda about: about["classes"].update(cat=0),
    "a count of text": lambda about: about["classes"].update(cat="5"),
    "another class": lambda about: about["classes"].update(mouse=1),
    "a name with control characters": lambda about: about.update(
        classes={"a\x1b[2J": 5, "dog": 5}, sha256=about["sha256"]
    ),
    "a width of text": lambda about: about["encoder"].update(width="6"),
    "a huge width": lambda about: about["encoder"].update(width=2**40),
    "another width": lambda about: about["encoder"].update(width=7),
    "an encoder that is none": lambda about: about["encoder"].update(name=["lite2"]),
    "an encoder with a newline": lambda about: about["encoder"].update(name="lite2\nforget"),
    "a share above all": lambda about: about.update(unknown=7),
    "a calibration that is not finite": lambda about: about["calibration"].update(noise=float("nan")),
    "a calibration of text": lambda about: about["calibration"].update(temperature="hot"),
    "a history of numbers": lambda about: about.update(history=[1]),
    "a history in the year 10000": lambda about: about["history"][0].update(time=1e15),
    "a history that is deep": deep,
    "no digests": lambda about: about.update(sha256={}),
    "steps of another kind": lambda about: about.update(steps={"past": [{"classes": 5}], "future": []}),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=list(FORGED))
def test_a_forged_description_is_refused_in_one_line(change):
    """Its digest is right: whoever can write the file can write the digest."""
    with pytest.raises(UserError) as caught:
        model_file.model_from_bytes(rewritten(model_file.model_to_bytes(a_model()), change), "forged")
    assert re.fullmatch("forged is damaged .*: use a copy of it", str(caught.value))
    assert str(caught.value).isprintable()


def test_json_that_is_deeper_than_python_goes_is_refused():
    import hashlib

    import safetensors.numpy

    text = "[" * 200_000
    metadata = {"protoreplay": f"{hashlib.sha256(text.encode()).hexdigest()} {text}"}
    arrays = safetensors.numpy.load(model_file.model_to_bytes(a_model()))
    with pytest.raises(UserError, match=r"it is damaged \(nested too deeply\)"):
        model_file.model_from_bytes(safetensors.numpy.save(arrays, metadata), "it")


@pytest.mark.parametrize("name", ["rows", "row_ends", "seen", "keys", "other_weights", "thumbnail_ends"])
@pytest.mark.parametrize(
    "change", [lambda a: a[:0], lambda a: a.astype("int8"), lambda a: a[::-1] - 1], ids=["none", "kind", "order"]
)
def test_arrays_that_do_not_go_together_are_refused(name, change):
    import hashlib

    import safetensors.numpy

    arrays = safetensors.numpy.load(model_file.model_to_bytes(a_model()))
    arrays[name] = np.ascontiguousarray(change(arrays[name]))
    if name == "rows" and arrays[name].shape == (10, 6) and arrays[name].dtype == np.float16:
        arrays[name][0, 0] = np.inf
    digest = hashlib.sha256(arrays[name].tobytes()).hexdigest()
    content = safetensors.numpy.save(arrays, _metadata(model_file.model_to_bytes(a_model())))
    with pytest.raises(UserError, match="it is damaged"):
        model_file.model_from_bytes(rewritten(content, lambda about: about["sha256"].update({name: digest})), "it")


def _metadata(content):
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length])["__metadata__"]


def test_what_is_no_file_is_refused_at_once(tmp_path):
    import os

    os.mkfifo(tmp_path / "m")
    with pytest.raises(OSError, match="not a regular file"):
        model_file.read_model(tmp_path / "m")

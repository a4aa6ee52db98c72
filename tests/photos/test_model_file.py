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

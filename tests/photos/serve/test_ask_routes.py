import base64
import io

import pytest
from PIL import Image

from protoreplay.photos.serve import asked, uploads
from tests.photos.serve.fakes import files, learn


def remembered(client, colour, count=1, start=50):
    """The answers, whose photos the server remembers."""
    return client.post("/api/predict?remember=true", files=files(colour, count, start)).json()["answers"]


def test_asking_again_needs_no_upload_and_is_of_the_new_model(taught):
    (first,) = remembered(taught, "blue")
    assert first["label"] is None
    learn(taught, "blue")
    again = taught.post("/api/answers", json={"keys": [first["key"], "0" * 16]}).json()
    assert [one["label"] for one in again["answers"]] == ["blue"]
    assert again["missing"] == ["0" * 16]
    assert again["revision"] == taught.get("/api/revision").json()["revision"]
    picture = taught.get(f"/api/asked/{first['key']}")
    assert Image.open(io.BytesIO(picture.content)).format == "JPEG"


def test_the_memory_is_bounded(served):
    memory = asked.AskedPhotos(served, most=2)
    photos = [content for _, (_, content, _) in files("red", 3)]
    keys = [photo.key for photo in memory.look(photos, remember=True)]
    found, missing = memory.find([*keys, keys[2]])
    assert ([photo.key for photo in found], missing) == (keys[1:], keys[:1])


def test_nothing_is_remembered_unasked_or_of_what_is_forgotten(taught):
    (answer,) = taught.post("/api/predict", files=files("red", 1, 50)).json()["answers"]
    assert taught.post("/api/answers", json={"keys": [answer["key"]]}).json()["missing"] == [answer["key"]]
    # A class that is forgotten leaves this memory, too.
    (taught_one,) = remembered(taught, "red", start=0)
    taught.post("/api/forget", json={"label": "red"})
    assert taught.post("/api/answers", json={"keys": [taught_one["key"]]}).json()["missing"] == [taught_one["key"]]


def test_one_photo_too_large_spoils_no_other(taught, monkeypatch):
    monkeypatch.setattr(uploads, "MOST_BYTES", 10_000)
    large = ("photos", ("large.jpg", b"\xff" * 10_001, "image/jpeg"))
    answers = taught.post("/api/predict", files=[*files("red", 1, 50), large, *files("green", 1, 50)]).json()["answers"]
    assert [one["label"] for one in answers] == ["red", None, "green"]
    assert [one["error"] for one in answers] == ["", "more than 0 MB", ""]
    lesson = taught.post("/api/learn", data={"label": "red"}, files=[large, *files("red", 2, 50)]).json()
    assert (lesson["learned"], lesson["unread"]) == (2, [{"photo": 1, "error": "more than 0 MB"}])


def test_several_answers_are_corrected_at_once_and_a_photo_moves(taught):
    keys = [one["key"] for one in remembered(taught, "yellow", 3)]
    done = taught.post("/api/correct", json={"label": "green", "keys": keys}).json()
    assert (done["learned"], done["moved"], done["missing"]) == (3, 0, [])
    moved = taught.post("/api/correct", json={"label": "yellow", "keys": keys}).json()
    assert (moved["learned"], moved["moved"]) == (3, 3)
    state = taught.get("/api/classes").json()
    assert {one["label"]: one["photos"] for one in state["classes"]} == {"green": 6, "red": 6, "yellow": 3}
    assert [step["kind"] for step in taught.get("/api/steps").json()["undo"]] == ["learn", "learn", "learn", "correct"]
    nothing = taught.post("/api/correct", json={"label": "red", "keys": ["0" * 16, keys[0]]}).json()
    assert (nothing["learned"], nothing["missing"]) == (0, ["0" * 16])
    assert taught.get("/api/classes").json()["revision"] == state["revision"]


def test_an_answer_is_explained(taught):
    """The tiny encoder of tests averages its places, as most do."""
    ((_, photo),) = files("red", 1, 50)
    found = taught.post("/api/explain", files={"photo": photo}).json()
    square = Image.open(io.BytesIO(base64.b64decode(found["square"].partition(",")[2])))
    assert square.size == (32, 32)
    assert found["labels"][0] == "red"
    assert len(found["lead"]) == len(found["lead"][0]) == 8
    assert [one["label"] for one in found["nearest"]] == ["red"] * 3
    assert taught.get(f"/api/thumbnails/{found['nearest'][0]['thumbnail'] or '0' * 16}").status_code in (200, 404)
    assert taught.post("/api/explain", files={"photo": ("p", b"no picture")}).status_code == 422


def test_what_to_label_next(taught):
    asked_keys = [one["key"] for one in (*remembered(taught, "red"), *remembered(taught, "blue", 3))]
    first, *_ = taught.post("/api/suggest", json={"keys": asked_keys, "count": 2}).json()
    assert first["key"] in asked_keys[1:]
    assert first["label"] is None
    assert first["unsure"] == 1


@pytest.mark.parametrize("path", ["answers", "correct", "suggest"])
def test_keys_must_be_keys(taught, path):
    for keys in ([], ["../x"], ["0" * 17], [None], "0" * 16, ["0" * 16] * 6000):
        assert taught.post(f"/api/{path}", json={"keys": keys, "label": "red"}).status_code in (413, 422)


def test_samples_are_pictures_that_can_be_taught(client):
    kinds = client.get("/api/samples").json()
    assert [(one["label"], len(one["teach"])) for one in kinds] == [("apple", 8), ("lemon", 8), ("pear", 8), ("cup", 0)]
    first = client.get("/api/samples/apple/0")
    assert Image.open(io.BytesIO(first.content)).size == (272, 272)
    assert first.content == client.get("/api/samples/apple/0").content
    assert client.get("/api/samples/..%2Fapple/0").status_code in (404, 422)
    assert client.get("/api/samples/apple/99").status_code == 422

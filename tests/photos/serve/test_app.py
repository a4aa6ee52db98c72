import errno
import io
import threading
import time

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from protoreplay.core.locks import held_lock
from protoreplay.core.shared_budget import SharedBudget
from protoreplay.data import pictures
from protoreplay.photos import model_file
from protoreplay.photos.serve import app, lessons, served_model, uploads
from tests.photos.serve.fakes import files, learn

JSON = {"Content-Type": "application/json"}


def labels(client):
    return [one["label"] for one in client.get("/api/classes").json()["classes"]]


def ask(client, colour, start=50):
    return client.post("/api/predict", files=files(colour, 1, start)).json()["answers"][0]


def patiently(attempt, done, seconds=60):
    """What `attempt` gives once it is `done`."""
    until = time.monotonic() + seconds
    while not done(found := attempt()):
        assert time.monotonic() < until, found
        time.sleep(0.01)
    return found


def looked_at(client, place):
    return patiently(lambda: client.get(place).json(), lambda now: now["state"] != "looking")


def test_what_is_taught_is_answered_and_on_disk(taught, served):
    answer = ask(taught, "red")
    assert answer["label"] == "red"
    assert answer["choices"][0]["probability"] > 0.5
    assert answer["nearest"]["label"] == "red"
    assert answer["nearest"]["image"].startswith("data:image/jpeg;base64,/9j/")
    assert ask(taught, "blue")["label"] is None
    assert set(model_file.read_model(served.path).classes) == {"red", "green"}
    assert sorted(path.name for path in served.path.parent.rglob("*") if not path.name.startswith(".")) == ["m"]


def test_classes_say_what_is_kept(taught):
    state = taught.get("/api/classes").json()
    red = next(one for one in state["classes"] if one["label"] == "red")
    assert (red["photos"], len(red["thumbnails"]), state["undoable"]) == (6, 4, 2)
    picture = taught.get(f"/api/thumbnails/{red['thumbnails'][0]}")
    assert Image.open(io.BytesIO(picture.content)).size == (96, 96)
    assert red["kept"]["thumbnails"] > len(picture.content)
    assert taught.get("/api/thumbnails/0000000000000000").status_code == 404


def test_a_lesson_is_shown_before_it_is_kept(taught):
    # Photos of green under another name: the two cannot be told apart.
    begun = taught.post("/api/lessons", data={"label": "lime"}, files=files("green", 6, 20))
    assert begun.status_code == 202
    place = f"/api/lessons/{begun.json()['id']}"
    now = looked_at(taught, place)
    assert (now["state"], now["done"], now["learned"]) == ("ready", 6, 6)
    assert any("'green' and 'lime' will be confused" in w or "'lime' and 'green'" in w for w in now["warnings"])
    assert labels(taught) == ["green", "red"]
    assert taught.post(f"{place}/keep").json()["state"] == "learned"
    assert labels(taught) == ["green", "lime", "red"]
    assert taught.post(f"{place}/keep").status_code == 422
    assert taught.delete(place).status_code == 204
    assert taught.get(place).status_code == 404


def test_a_lesson_that_is_dropped_changes_nothing(taught, served):
    before = served.path.read_bytes()
    begun = taught.post("/api/lessons", data={"label": "blue"}, files=files("blue")).json()
    assert taught.delete(f"/api/lessons/{begun['id']}").status_code == 204
    assert labels(taught) == ["green", "red"]
    assert served.path.read_bytes() == before


def test_rename_unite_forget_undo(taught, served):
    learn(taught, "blue")
    assert taught.post("/api/rename", json={"label": "blue", "new": "sky"}).status_code == 200
    assert labels(taught) == ["green", "red", "sky"]
    united = taught.post("/api/unite", json={"label": "sky", "into": "green"}).json()
    assert {one["label"]: one["photos"] for one in united["classes"]} == {"green": 12, "red": 6}
    assert taught.post("/api/undo").status_code == 200
    assert taught.post("/api/forget", json={"label": "red"}).status_code == 200
    assert ask(taught, "red")["label"] is None
    assert "red" not in model_file.read_model(served.path).classes
    assert "red" not in str(taught.get("/api/history").json())
    taught.post("/api/undo")
    assert ask(taught, "red")["label"] == "red"
    assert "red" in model_file.read_model(served.path).classes
    for _ in range(taught.get("/api/classes").json()["undoable"]):
        assert taught.post("/api/undo").status_code == 200
    assert labels(taught) == []
    assert taught.post("/api/undo").json()["detail"] == "there is nothing to undo"


def test_a_photo_taught_twice_changes_nothing(taught):
    revision = taught.get("/api/classes").json()["revision"]
    again = learn(taught, "red")
    assert (again["learned"], again["known"]) == (0, 6)
    assert taught.get("/api/classes").json()["revision"] == revision


def test_the_map_shows_classes_apart(taught):
    learn(taught, "blue")
    shown = taught.get("/api/map").json()
    places = {one["label"]: (one["x"], one["y"]) for one in shown["classes"]}
    assert len(set(places.values())) == 3
    assert shown["shown"] == pytest.approx(1.0)
    assert all(one["spread_x"] > 0 and one["spread_y"] > 0 and len(one["photos"]) == 6 for one in shown["classes"])


def test_before_anything_is_taught(client):
    assert client.get("/api/classes").json()["classes"] == []
    assert client.get("/api/map").json()["classes"] == []
    assert client.get("/api/history").json() == []
    assert client.get("/api/model").status_code == 200
    answer = client.post("/api/predict", files=files("red", 1))
    assert (answer.status_code, answer.json()["detail"].partition(":")[0]) == (422, "nothing is learned yet")


def test_the_model_can_be_taken_away(taught):
    answer = taught.get("/api/model")
    assert set(model_file.model_from_bytes(answer.content, "download").classes) == {"red", "green"}
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''m"


def test_bad_calls_say_what_is_wrong(taught):
    bad = ("photos", ("x.png", b"no picture", "image/png"))
    mixed = taught.post("/api/predict", files=[*files("red", 1, 60), bad])
    assert [bool(one["error"]) for one in mixed.json()["answers"]] == [False, True]
    for answer, words in [
        (taught.post("/api/predict", files=[bad]), "photo 1: not a picture"),
        (taught.post("/api/predict"), "photos"),
        (taught.post("/api/learn", data={"label": "x"}, files=[bad]), "no readable photo"),
        (taught.post("/api/learn", data={"label": " "}, files=files("red", 1)), "class name"),
        (taught.post("/api/rename", json={"label": "red", "new": "green"}), "already"),
        (taught.post("/api/rename", json={"label": "red", "new": "a\nb"}), "no newlines"),
        (taught.post("/api/unite", json={"label": "red", "into": "red"}), "itself"),
        (taught.post("/api/forget", content=b'{"label": "\\ud800"}', headers=JSON), "unicode"),
        (taught.post("/api/forget", content=b'{"label": NaN}', headers=JSON), "label"),
    ]:
        assert (answer.status_code, words in answer.json()["detail"]) == (422, True), answer.text
    assert labels(taught) == ["green", "red"]


def test_caps(taught, monkeypatch):
    monkeypatch.setattr(uploads, "MOST_PHOTOS", 2)
    assert taught.post("/api/predict", files=files("red", 3)).status_code == 413
    monkeypatch.setattr(pictures, "MOST_PIXELS", 1599)
    answer = taught.post("/api/predict", files=files("red", 1))
    assert (answer.status_code, "photo 1: refused: it has far more pixels" in answer.json()["detail"]) == (413, True)
    monkeypatch.setattr(uploads, "MOST_BYTES", 1000)
    assert "MB" in taught.post("/api/predict", files=files("red", 1)).json()["detail"]


def test_too_many_lessons_at_once(taught, monkeypatch):
    looking, go = threading.Event(), threading.Event()
    embed = lessons.embed_photos

    def held(*given, **more):
        looking.set()
        go.wait(60)
        return embed(*given, **more)

    monkeypatch.setattr(lessons, "embed_photos", held)
    for _ in range(lessons.MOST_WAITING):
        begun = taught.post("/api/lessons", data={"label": "blue"}, files=files("blue", 1))
        # One that is dropped before it is looked at ends at once; those behind the first wait for it.
        assert looking.wait(60)
        # Dropping it does not make room before it has ended.
        assert taught.delete(f"/api/lessons/{begun.json()['id']}").status_code == 204
    assert taught.post("/api/lessons", data={"label": "blue"}, files=files("blue", 1)).status_code == 429
    # Asking does not wait for lessons.
    assert ask(taught, "red")["label"] == "red"
    go.set()
    begin = lambda: taught.post("/api/lessons", data={"label": "blue"}, files=files("blue", 1))  # noqa: E731
    assert patiently(begin, lambda answer: answer.status_code != 429).status_code == 202


def test_a_fault_of_ours_is_said_and_logged(served, monkeypatch, caplog):
    monkeypatch.setattr(lessons, "embed_photos", lambda *_, **__: 1 / 0)
    with TestClient(app.create_app(served), "http://127.0.0.1:8000", raise_server_exceptions=False) as client:
        assert client.post("/api/learn", data={"label": "blue"}, files=files("blue", 1)).status_code == 500
        begun = client.post("/api/lessons", data={"label": "blue"}, files=files("blue", 1)).json()
        assert "internal error" in looked_at(client, f"/api/lessons/{begun['id']}")["error"]
    assert "ZeroDivisionError" in caplog.text


def test_the_description_works_offline(client):
    page = client.get("/docs")
    assert "POST /api/learn" in page.text
    assert "//" not in page.text.replace("<!doctype", "")
    assert "/api/undo" in client.get("/openapi.json").json()["paths"]


def test_changes_do_not_wait_for_ever_nor_stop_the_answers(taught, served, monkeypatch):
    monkeypatch.setattr(served_model, "WAIT_SECONDS", 1.0)
    statuses = []
    change = lambda: statuses.append(taught.post("/api/rename", json={"label": "red", "new": "rot"}).status_code)  # noqa: E731
    with held_lock(served.path.with_name(f".{served.path.name}.lock"), print, "busy"):
        changes = [threading.Thread(target=change) for _ in range(41)]
        for one in changes:
            one.start()
        # More of them than the server has threads: those that ask are answered all the same.
        assert labels(taught) == ["green", "red"]
        assert ask(taught, "red")["label"] == "red"
        for one in changes:
            one.join(60)
    assert statuses == [503] * 41
    assert labels(taught) == ["green", "red"]
    change()
    assert statuses[-1] == 200


def test_uploads_share_the_memory(taught, monkeypatch):
    content = files("red", 1)[0][1][1]
    monkeypatch.setattr(pictures, "CONTENTS", SharedBudget(2 * len(content)))
    monkeypatch.setattr(uploads, "WAIT_SECONDS", 0.05)
    looking, go = threading.Event(), threading.Event()
    embed = lessons.embed_photos

    def held(*given, **more):
        looking.set()
        go.wait(60)
        return embed(*given, **more)

    monkeypatch.setattr(lessons, "embed_photos", held)
    begun = taught.post("/api/lessons", data={"label": "blue"}, files=files("blue", 2))
    assert looking.wait(60)
    refused = taught.post("/api/predict", files=files("red", 1))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    go.set()
    assert looked_at(taught, f"/api/lessons/{begun.json()['id']}")["state"] == "ready"
    assert patiently(lambda: taught.post("/api/predict", files=files("red", 1)), lambda a: a.status_code != 503)
    assert pictures.CONTENTS.take(10**9, 60) == 2 * len(content), "all is given back"


def test_a_full_disk_is_said(taught, served, monkeypatch, tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    before = served.path.read_bytes()

    def fails(*_):
        raise full

    with monkeypatch.context() as disk:
        disk.setattr(model_file, "write_whole", fails)
        answer = taught.post("/api/forget", json={"label": "red"})
        assert (answer.status_code, "disk" in answer.json()["detail"]) == (507, True)
    with monkeypatch.context() as disk:
        disk.setattr("starlette.datastructures.UploadFile.write", fails)
        answer = taught.post("/api/predict", files=files("red", 1))
        assert (answer.status_code, "disk" in answer.json()["detail"]) == (507, True)
    assert served.path.read_bytes() == before
    assert labels(taught) == ["green", "red"]

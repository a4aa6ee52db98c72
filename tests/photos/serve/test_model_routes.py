import io
import json
import shutil
import subprocess
import sys
import zipfile

import onnxruntime
import pytest

from protoreplay import Classifier
from protoreplay.core.errors import UserError
from protoreplay.photos import model_file
from protoreplay.photos.serve import web_bundle
from tests.photos import fakes
from tests.photos.serve.fakes import files, learn


def names(client):
    return [one["label"] for one in client.get("/api/classes").json()["classes"]]


def test_steps_have_names_and_go_both_ways(taught):
    learn(taught, "blue")
    taught.post("/api/rename", json={"label": "blue", "new": "sky"})
    taught.post("/api/unite", json={"label": "sky", "into": "green"})
    taught.post("/api/forget", json={"label": "red"})
    taught.post("/api/settings", json={"unknown": 0.2})
    steps = taught.get("/api/steps").json()
    told = [(step["kind"], step["classes"], step["into"], step["photos"]) for step in steps["undo"]]
    assert told == [
        ("learn", ["red"], "", 6),
        ("learn", ["green"], "", 6),
        ("learn", ["blue"], "", 6),
        ("rename", ["blue"], "sky", 6),
        ("unite", ["sky"], "green", 6),
        ("forget", ["red"], "", 6),
        ("settings", [], "", 0),
    ]
    assert steps["saved"] is False, "a forgotten class is in no file"
    assert taught.post("/api/undo?steps=3").json()["redoable"] == 3
    assert names(taught) == ["green", "red", "sky"]
    after = taught.get("/api/steps").json()
    assert [step["kind"] for step in after["redo"]] == ["unite", "forget", "settings"]
    assert taught.post("/api/redo").json()["undoable"] == 5
    assert names(taught) == ["green", "red"]
    assert taught.post("/api/redo?steps=3").json()["detail"] == "there is nothing to redo"
    assert names(taught) == ["green", "red"]


def test_what_the_command_line_does_is_seen(taught, served):
    before = taught.get("/api/revision").json()
    assert taught.get("/api/revision").json() == before
    state = model_file.read_state(served.path)
    model_file.write_model(state.changed_to(state.model.rename("red", "scarlet")), served.path)
    after = taught.get("/api/revision").json()
    assert after == {"server": before["server"], "revision": before["revision"] + 1}
    assert names(taught) == ["green", "scarlet"]
    assert taught.get("/api/steps").json()["undo"][-1]["kind"] == "rename"
    # A file that cannot be used is not taken over, and does not stop anything.
    content = served.path.read_bytes()
    served.path.write_bytes(content[:100])
    assert names(taught) == ["green", "scarlet"]
    served.path.write_bytes(content)
    assert taught.get("/api/revision").status_code == 200


def test_how_well_classes_are_taught(taught):
    learn(taught, "blue")
    found = {one["label"]: one for one in taught.get("/api/taught").json()}
    assert found["red"]["verdict"] == "enough"
    assert (found["red"]["asked"], found["red"]["right"]) == (6, 6)
    points = taught.get("/api/curve").json()
    assert [point["photos"] for point in points] == sorted(point["photos"] for point in points)
    assert points[-1]["classes"]["red"] == [6, 6]
    judged = taught.get("/api/refusals").json()
    shares = [photo["refused_from"] for photo in judged["photos"]]
    assert len(shares) == 18
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
    assert judged["unknown"] == 0.05


def test_settings_are_checked_and_undone(taught):
    for wrong in (0.9, -1, "x", {}):
        assert taught.post("/api/settings", json={"unknown": wrong}).status_code == 422
    revision = taught.get("/api/revision").json()["revision"]
    assert taught.post("/api/settings", json={"unknown": 0.05}).json()["revision"] == revision
    assert taught.post("/api/settings", json={"unknown": 0.0}).json()["unknown"] == 0
    assert taught.post("/api/undo").json()["unknown"] == 0.05


def test_a_kept_photo_is_removed_exactly(taught, served, tiny):
    red = next(one for one in taught.get("/api/classes").json()["classes"] if one["label"] == "red")
    assert (red["exact"], red["fixed"]) == (True, [])
    key = red["thumbnails"][0]
    state = taught.post("/api/forget-photo", json={"label": "red", "key": key}).json()
    left = next(one for one in state["classes"] if one["label"] == "red")
    assert (left["photos"], key in left["thumbnails"]) == (5, False)
    assert taught.post("/api/forget-photo", json={"label": "red", "key": key}).status_code == 422
    assert taught.get("/api/steps").json()["undo"][-1]["kind"] == "forget photo"
    # As if it had never been taught.
    other = Classifier(tiny, keep=4, cache=False)
    for colour in ("red", "green"):
        photos = [content for _, (_, content, _) in files(colour)]
        kept = [one for one, seen in zip(photos, other.embed(photos)) if f"{seen.key:016x}" != key]
        other.learn({colour: kept})
    answer = taught.post("/api/predict", files=files("blue", 1, 60)).json()["answers"][0]
    ((_, (_, content, _)),) = files("blue", 1, 60)
    (expected,) = other.predict(content)
    assert answer["choices"][0]["probability"] == pytest.approx(expected.choices[0].probability, abs=1e-9)


def test_a_model_is_imported(taught, tiny, tmp_path):
    other = Classifier(tiny, cache=False)
    other.learn({"blue": fakes.pixels(fakes.photos(tmp_path / "p", colours=("blue",)))["blue"]})
    other.save(tmp_path / "other")
    answer = taught.post("/api/import", files={"model": ("m", (tmp_path / "other").read_bytes())})
    assert [one["label"] for one in answer.json()["classes"]] == ["blue", "green", "red"]
    assert taught.get("/api/steps").json()["undo"][-1]["kind"] == "merge"
    bad = taught.post("/api/import", files={"model": ("m", b"no model")})
    assert (bad.status_code, "is not a model" in bad.json()["detail"]) == (422, True)


def test_the_onnx_file_runs(taught):
    answer = taught.get("/api/model.onnx")
    session = onnxruntime.InferenceSession(answer.content)
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == ["green", "red"]
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''m.onnx"


def test_a_lesson_comes_in_portions_of_several_classes(client):
    bad = ("photos", ("x", b"no picture", "image/png"))
    sent = {"data": {"label": "red", "more": "true"}, "files": [*files("red", 2), bad]}
    lesson = client.post("/api/lessons", **sent).json()
    place = f"/api/lessons/{lesson['id']}"
    for label, start, more in (("red", 2, "true"), ("green", 0, "false")):
        found = client.post(f"{place}/photos", data={"label": label, "more": more}, files=files(label, 3, start))
    assert (found.json()["state"], found.json()["learned"], found.json()["done"]) == ("ready", 8, 9)
    assert [one["photo"] for one in found.json()["unread"]] == [3]
    assert client.post(f"{place}/keep").json()["state"] == "learned"
    assert client.post(f"{place}/photos", data={"label": "x"}, files=files("red", 1)).status_code == 422
    counts = {one["label"]: one["photos"] for one in client.get("/api/classes").json()["classes"]}
    assert counts == {"green": 3, "red": 5}
    assert [step["classes"] for step in client.get("/api/steps").json()["undo"]] == [["green", "red"]]


@pytest.fixture
def runtime(monkeypatch):
    """Stand-ins for the files of onnxruntime-web, which are 14 MB."""
    content = {name: f"// {name}".encode() for name in web_bundle.DIGESTS}
    monkeypatch.setattr(web_bundle, "browser_runtime", lambda: content)


def test_the_page_for_browsers_has_all_it_needs(taught, runtime):
    answer = taught.post("/api/browser.zip")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        found = {name: packed.read(name).decode() for name in packed.namelist()}
    assert set(found) == {"index.html", "ort.wasm.min.js", "ort-data.js", "model.js"}
    assert 'CLASSES = ["green", "red"]' in found["model.js"]
    for name in set(found) - {"index.html"}:
        assert f'src="{name}"' in found["index.html"]


def test_a_runtime_that_cannot_be_had_is_one_line(taught, monkeypatch, tmp_path):
    monkeypatch.setenv("PROTOREPLAY_CACHE", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    answer = taught.post("/api/browser.zip")
    assert (answer.status_code, "install npm" in answer.json()["detail"]) == (422, True)
    monkeypatch.setattr(web_bundle, "_fetched_by_npm", lambda: dict.fromkeys(web_bundle.DIGESTS, b"something else"))
    with pytest.raises(UserError, match="another"):
        web_bundle.browser_runtime()
    assert not any(tmp_path.rglob("*.js"))


def test_the_server_knows_nothing_of_pytorch():
    """It would take seconds to start and gigabytes to install."""
    program = "import sys; import protoreplay.photos.serve.app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

"""Photos are answered when they are whole, each once, also after a kill; and what cameras give."""

import base64
import http.server
import json
import os
import sys
import threading

import pytest

from protoreplay.core.errors import UserError
from protoreplay.photos import cameras, watching
from tests.photos import fakes


class Kept:
    """A delivery that keeps what it gets, and fails when told."""

    def __init__(self, fail_at=None):
        self.messages, self.fail_at = [], fail_at

    def deliver(self, message, again):
        self.messages.append((message, again))
        if len(self.messages) == self.fail_at:
            raise KeyboardInterrupt


def watch(taught, folder, state, kept, patience=0.0, before_look=lambda: None):
    known = watching.WatchState(state)
    source = watching.WatchedFolder(folder, known, patience)
    return watching.watch_photos(taught, source, known, [kept], 0, True, before_look, lambda seconds: None)


def test_each_photo_once_also_after_a_kill(taught, tmp_path):
    folder, state = fakes.photos(tmp_path / "in", 3, 40), tmp_path / "state.jsonl"
    killed, kept = Kept(fail_at=4), Kept()
    with pytest.raises(KeyboardInterrupt):
        watch(taught, folder, state, killed)
    with state.open("ab") as file:
        file.write(b'\n{"place": "cut o')
    assert watch(taught, folder, state, kept) == 6
    assert [again for _, again in kept.messages] == [True] + [False] * 5, "nobody knows whether the fourth arrived"
    assert kept.messages[0][0]["id"] == killed.messages[3][0]["id"]
    ids = {message["id"] for message, _ in killed.messages + kept.messages}
    assert len(ids) == 9
    assert kept.messages[-1][0]["label"] == "red"
    (folder / "red" / "040.png").touch()  # the same content again
    assert watch(taught, folder, state, kept) == 0
    fakes.photo("blue", 5).save(folder / "red" / "040.png")
    assert watch(taught, folder, state, kept) == 1
    assert kept.messages[-1][0]["label"] == "blue"


def test_a_photo_is_waited_for_until_it_is_whole(taught, tmp_path):
    whole = (fakes.photos(tmp_path / "from", 1) / "red" / "000.png").read_bytes()
    (tmp_path / "in").mkdir()
    place, looks, kept = tmp_path / "in" / "a.png", [], Kept()

    def grow():
        looks.append(len(kept.messages))
        if len(looks) in (1, 4, 7):  # rests for two looks in between
            place.write_bytes(whole[: len(whole) * len(looks) // 7])

    watch(taught, tmp_path / "in", tmp_path / "state", kept, 1e6, grow)
    assert len(kept.messages) == 1
    assert kept.messages[0][0]["label"] == "red"
    assert not any(looks[:7])
    (tmp_path / "in" / "b.png").write_bytes(whole[:100])
    watch(taught, tmp_path / "in", tmp_path / "state", kept)
    assert "error" in kept.messages[-1][0], "one that stays broken is told of in the end"
    with pytest.raises(UserError, match="is not a folder"):
        watching.WatchedFolder(tmp_path / "no", watching.WatchState(tmp_path / "state"))


def test_a_program_reads_each_answer(tmp_path):
    out, said = tmp_path / "out", []
    program = f'{sys.executable} -c \'import sys; open("{out}", "a").write(sys.stdin.read()); sys.exit(3)\''
    delivery = watching.ProgramDelivery(program, said.append)
    delivery.deliver({"photo": "a.png", "label": "é"}, False)
    assert json.loads(out.read_text()) == {"photo": "a.png", "label": "é"}
    assert said == [f"{sys.executable} ended with 3 for a.png"]
    with pytest.raises(UserError, match="No such file"):
        watching.ProgramDelivery("no-such-program", said.append).deliver({}, False)


@pytest.fixture
def camera(tmp_path):
    """Its address, and what it shows: bytes, or a code."""
    shows = {"picture": b""}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            allowed = self.headers.get("Authorization") == "Basic " + base64.b64encode(b"me:a b").decode()
            code = 401 if not allowed else 200 if shows["picture"] else 503
            self.send_response(code)
            if code == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="camera"')
            self.end_headers()
            self.wfile.write(shows["picture"] if code == 200 else b"")

        def log_message(self, *given):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_port, shows
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_camera_is_asked_and_what_is_new_is_answered(taught, camera, tmp_path):
    port, shows = camera
    photos = sorted((fakes.photos(tmp_path / "from", 1)).glob("*/*.png"))
    state, said, kept = watching.WatchState(tmp_path / "state"), [], Kept()
    source = watching.WatchedCamera(f"http://me:a%20b@127.0.0.1:{port}/snapshot.jpg", state, said.append)

    def look():
        return watching.watch_photos(taught, source, state, [kept], 0, True)

    assert (look(), look()) == (0, 0)
    assert said == [f"http://127.0.0.1:{port}/snapshot.jpg: the camera answers 503 Service Unavailable; trying again"]
    for photo, count in ((photos[0], 1), (photos[0], 0), (photos[1], 1)):
        shows["picture"] = photo.read_bytes()
        assert look() == count
    assert [message["label"] for message, _ in kept.messages] == ["blue", "green"]
    assert "me:" not in kept.messages[0][0]["photo"]
    with pytest.raises(UserError, match="answers 401"):
        cameras.SnapshotCamera(f"http://127.0.0.1:{port}/").snapshot()
    with pytest.raises(UserError, match="Connection refused"):
        cameras.SnapshotCamera("http://127.0.0.1:9/").snapshot()


def test_a_stream_needs_ffmpeg_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"rtsp needs the program ffmpeg.*snapshot"):
        cameras.SnapshotCamera("rtsp://me:secret@camera/1")
    program = tmp_path / "ffmpeg"
    program.write_text("#!/bin/sh\nprintf picture\n")
    program.chmod(0o755)
    camera = cameras.SnapshotCamera("rtsp://me:secret@camera/1")
    assert camera.snapshot() == b"picture"
    program.write_text('#!/bin/sh\necho "$8: refused" >&2\nexit 1\n')
    with pytest.raises(UserError, match=r"^rtsp://camera/1: .*refused") as error:
        camera.snapshot()
    assert "secret" not in str(error.value)
    assert not cameras.is_camera("C:/photos")
    assert os.environ["PATH"] == str(tmp_path)

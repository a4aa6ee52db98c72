"""Against a real broker, Debian's mosquitto on loopback: every photo's answer arrives, none twice."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from protoreplay import Classifier
from protoreplay.core.errors import UserError
from tests.photos import real_photos

paho = pytest.importorskip("paho.mqtt.client", reason="the extra `mqtt` is not installed")
mqtt = pytest.importorskip("protoreplay.photos.mqtt")
PHOTOS = int(os.environ.get("PROTOREPLAY_PHOTOS", "24"))


def until(condition, seconds=240.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


class Broker:
    def __init__(self, folder):
        self.program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
        if self.program is None:
            pytest.skip("needs the broker mosquitto: install the package `mosquitto` of your system")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.config = folder / "mosquitto.conf"
        self.config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
            f"persistence_location {folder}/\nuser root\n"
        )
        self.process = None

    def start(self):
        words = [self.program, "-c", str(self.config)]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self._answers)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)

    def _answers(self):
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0


class Listener:
    """Somebody who listens all the time; the broker keeps for them what comes while they are away."""

    def __init__(self, port):
        self.messages, self.ready = [], threading.Event()
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="listener", clean_session=False)
        self.client.reconnect_delay_set(1, 1)
        self.client.on_connect = lambda client, data, flags, *rest: (
            None if flags.session_present else client.subscribe("#", qos=2)
        )
        self.client.on_subscribe = lambda *given: self.ready.set()
        self.client.on_message = lambda client, data, one: self.messages.append((one.topic, one.payload))
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert self.ready.wait(30)

    def answers(self):
        return [json.loads(payload) for topic, payload in list(self.messages) if topic == "protoreplay/garden_cam"]

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def broker(tmp_path):
    broker = Broker(tmp_path)
    broker.start()
    yield broker
    broker.stop()


class Watcher:
    """The command `watch`."""

    def __init__(self, folder, port, encoder):
        self.said = folder / "said"
        source, state, server = str(folder / "Gärden cam"), str(folder / "state"), f"127.0.0.1:{port}"
        words = ["watch", str(folder / "m"), source, "--mqtt", server, "--every", "0.05", "--state", state]
        words += ["--encoder", encoder]
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "protoreplay.cli", *words], stdout=subprocess.DEVNULL, stderr=said
            )

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)


def test_every_answer_arrives_once_also_when_the_broker_restarts(tiny, broker, tmp_path):
    """`PROTOREPLAY_PHOTOS=200` for two hundred photos, `PROTOREPLAY_REAL_PHOTOS=FOLDER` for photos of your own."""
    photos = sorted(real_photos.sub_folders(tmp_path / "photos", PHOTOS).glob("*/*"))
    classifier = Classifier(real_photos.encoder_for(tiny))
    classifier.learn({place.name: sorted(place.iterdir()) for place in (tmp_path / "photos").iterdir()})
    classifier.save(tmp_path / "m")
    folder = tmp_path / "Gärden cam"
    folder.mkdir()
    listener, watcher = Listener(broker.port), Watcher(tmp_path, broker.port, real_photos.encoder_for(tiny))
    try:
        for number, photo in enumerate(photos):
            shutil.copy(photo, folder / f"{number:03}{photo.suffix}")
            if number == PHOTOS // 2:
                until(lambda: len(listener.answers()) > PHOTOS // 4)
                broker.stop()
            if number == PHOTOS * 2 // 3:
                until(lambda: b" is gone " in watcher.said.read_bytes())
                broker.start()
        until(lambda: len(listener.answers()) >= PHOTOS)
    finally:
        watcher.stop()
    # Said when it stopped, so behind all that it has sent.
    until(lambda: listener.messages[-1] == ("protoreplay/garden_cam/status", b"offline"))
    found = listener.answers()
    assert len(found) == len({one["id"] for one in found}) == len({one["photo"] for one in found}) == PHOTOS
    assert {one["label"] for one in found} >= {photo.parent.name for photo in photos[:1]}
    last = mqtt.MqttDelivery(f"127.0.0.1:{broker.port}", "Gärden cam")
    last.deliver(found[-1], again=True)  # a process that was killed before it wrote down that this one had arrived
    last.deliver({**found[-1], "id": "another"}, again=True)
    until(lambda: len(listener.answers()) > PHOTOS)
    assert [one["id"] for one in listener.answers()[PHOTOS:]] == ["another"]
    config = json.loads(dict(listener.messages)["homeassistant/sensor/protoreplay_garden_cam/config"])
    assert config["state_topic"] == "protoreplay/garden_cam"
    assert config["availability_topic"] == "protoreplay/garden_cam/status"
    last.close()
    listener.close()


def test_wrong_addresses_are_refused():
    with pytest.raises(UserError, match="cannot be reached: Connection refused"):
        mqtt.MqttDelivery("127.0.0.1:9", "x")
    for address in ("http://x", "", "host:x", "host/path"):
        with pytest.raises(UserError, match="write HOST, HOST:PORT"):
            mqtt.MqttDelivery(address, "x")
    with pytest.raises(UserError, match="letters, digits and / only"):
        mqtt.MqttDelivery("127.0.0.1", "x", "all/#")

"""Answers to an MQTT broker, each once, with what Home Assistant needs to show them by itself.

Messages go one at a time, and the next waits until the broker has acknowledged the last. Where a connection broke
before that, nobody knows whether the broker has the message. It keeps the last one of a topic ("retained"), so it is
asked: a message that is there is not sent again.
"""

import contextlib
import json
import ssl
import threading
import time
import unicodedata
import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from protoreplay._version import __version__
from protoreplay.core.errors import UserError

if TYPE_CHECKING:
    from paho.mqtt.client import Client

SECONDS = 10.0
"""To wait for an answer of the broker before the connection is taken for broken."""
ASKED = 2.0
"""Seconds to wait for the kept message, which comes right after the subscription."""
LONGEST_PAUSE = 30.0
DISCOVERY = "homeassistant"


class BrokenConnectionError(Exception):
    """The broker is gone."""


class MqttDelivery:
    """A topic of a broker.

    Args:
        address: `HOST`, `HOST:PORT` or `mqtt://USER:PASSWORD@HOST:PORT`; `mqtts://` is encrypted.
        name: of what is watched, as people see it.
        topic: where answers go; `TOPIC/status` says `online` or `offline`.
        say: hears when the broker is gone and when it is back.
        discovery: the topic under which Home Assistant looks for devices; empty: it is not told.
    """

    def __init__(
        self,
        address: str,
        name: str,
        topic: str = "",
        say: Callable[[str], None] = lambda line: None,
        discovery: str = DISCOVERY,
    ) -> None:
        _paho()
        self.broker = _parsed(address)
        self.name, self.slug, self.say, self.discovery = name, plain_name(name), say, discovery
        self.topic = topic or f"protoreplay/{self.slug}"
        if any(sign in self.topic for sign in "#+\0") or not self.topic.strip("/"):
            raise UserError(f"topic '{self.topic}': letters, digits and / only")
        self._connection: _Connection | None = None
        try:
            self._connected()
        except BrokenConnectionError as error:
            raise UserError(f"the MQTT broker {self.shown} cannot be reached: {error}") from None

    @property
    def shown(self) -> str:
        """The broker's address without user and password."""
        return f"{self.broker.hostname}:{self.broker.port or _usual_port(self.broker)}"

    def deliver(self, message: dict[str, Any], again: bool) -> None:
        """Return when the broker has acknowledged the message, however long it is away."""
        pause, content = 0.5, json.dumps(message, ensure_ascii=False).encode("utf-8", "backslashreplace")
        while True:
            try:
                connection = self._connected()
                if not (again and connection.kept_id(self.topic) == message["id"]):
                    connection.publish(self.topic, content)
                return
            except BrokenConnectionError as error:
                if pause == 0.5:
                    self.say(f"the MQTT broker {self.shown} is gone ({error}): waiting until it is back")
                self._close()
                again, pause = True, min(2 * pause, LONGEST_PAUSE)
                time.sleep(pause / 2)

    def close(self) -> None:
        """Say goodbye."""
        if self._connection is not None:
            with contextlib.suppress(BrokenConnectionError):
                self._connection.publish(f"{self.topic}/status", b"offline")
            self._close()

    def config(self) -> dict[str, Any]:
        """What Home Assistant is told."""
        own = f"protoreplay_{self.slug}"
        return {
            "name": "Answer",
            "unique_id": own,
            "state_topic": self.topic,
            "value_template": "{{ value_json.label or 'unknown' }}",
            "json_attributes_topic": self.topic,
            "availability_topic": f"{self.topic}/status",
            "icon": "mdi:image-search",
            "device": {"identifiers": [own], "name": self.name, "manufacturer": "protoreplay"},
            "origin": {"name": "protoreplay", "sw_version": __version__},
        }

    def _connected(self) -> "_Connection":
        if self._connection is None:
            connection = _Connection(self.broker, f"{self.topic}/status")
            try:
                if self.discovery:
                    place = f"{self.discovery}/sensor/protoreplay_{self.slug}/config"
                    connection.publish(place, json.dumps(self.config()).encode())
                connection.publish(f"{self.topic}/status", b"online")
            except BrokenConnectionError:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Connection:
    """One connection; it is not mended when it breaks, because what would be sent again then nobody could ask about."""

    def __init__(self, broker: urllib.parse.SplitResult, status: str) -> None:
        mqtt = _paho()
        self._changed = threading.Condition()
        self._acknowledged: set[int] = set()
        self._lost = ""
        self._is_open = self._is_subscribed = False
        self._kept: dict[str, bytes] = {}
        self._client: Client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, reconnect_on_failure=False)
        self._client.will_set(status, b"offline", qos=1, retain=True)
        if broker.username:
            unquoted = (urllib.parse.unquote(text) for text in (broker.username, broker.password or ""))
            self._client.username_pw_set(*unquoted)
        if broker.scheme == "mqtts":
            self._client.tls_set_context(ssl.create_default_context())
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_publish = lambda client, data, mid, *rest: self._note(self._acknowledged.add, mid)
        self._client.on_subscribe = lambda *given: self._note(self._mark_subscribed)
        self._client.on_message = lambda client, data, one: self._note(self._kept.__setitem__, one.topic, one.payload)
        try:
            self._client.connect(str(broker.hostname), broker.port or _usual_port(broker), keepalive=30)
        except (OSError, ValueError) as error:
            raise BrokenConnectionError(str(getattr(error, "strerror", None) or error)) from None
        self._client.loop_start()
        try:
            self._wait(lambda: self._is_open)
        except BrokenConnectionError:
            self.close()
            raise

    def publish(self, topic: str, content: bytes) -> None:
        """Return when the broker has it."""
        # 2, "exactly once", so that a broker that restarts does not deliver it twice to those who listen with 2.
        sent = self._client.publish(topic, content, qos=2, retain=True)
        self._wait(lambda: sent.mid in self._acknowledged)

    def kept_id(self, topic: str) -> str | None:
        """The `id` of the message that the broker keeps for a topic."""
        self._client.subscribe(topic, qos=1)
        self._wait(lambda: self._is_subscribed)
        with self._changed:
            self._changed.wait_for(lambda: topic in self._kept or self._lost, ASKED)
        self._client.unsubscribe(topic)
        try:
            found = json.loads(self._kept.get(topic, b"null"))
        except ValueError:
            return None
        return found.get("id") if isinstance(found, dict) else None

    def close(self) -> None:
        """End it, whatever state it is in."""
        self._client.disconnect()
        self._client.loop_stop()

    def _wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: condition() or bool(self._lost), SECONDS):
                raise BrokenConnectionError("no answer")
            if not condition():
                raise BrokenConnectionError(self._lost)

    def _note(self, change: Callable[..., object], *given: object) -> None:
        with self._changed:
            change(*given)
            self._changed.notify_all()

    def _mark_subscribed(self) -> None:
        self._is_subscribed = True

    def _on_connect(self, client: object, data: object, flags: object, reason: Any, *rest: object) -> None:
        with self._changed:
            self._is_open = not reason.is_failure
            self._lost = "" if self._is_open else str(reason)
            self._changed.notify_all()

    def _on_disconnect(self, client: object, data: object, flags: object, reason: Any, *rest: object) -> None:
        with self._changed:
            self._lost = self._lost or str(reason)
            self._changed.notify_all()


def plain_name(name: str) -> str:
    """A name of ASCII letters, digits and _, as topics and identifiers have it."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return "_".join("".join(c if c.isalnum() else " " for c in ascii_name).split()) or "photos"


def _parsed(address: str) -> urllib.parse.SplitResult:
    wrong = UserError(f"--mqtt: write HOST, HOST:PORT or mqtt://USER:PASSWORD@HOST:PORT, not '{address}'")
    try:
        parts = urllib.parse.urlsplit(address if "://" in address else f"mqtt://{address}")
        port = parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname or parts.path.strip("/") or port == 0:
        raise wrong
    return parts


def _usual_port(broker: urllib.parse.SplitResult) -> int:
    return 8883 if broker.scheme == "mqtts" else 1883


def _paho() -> Any:
    try:
        from paho.mqtt import client
    except ModuleNotFoundError:
        raise UserError("--mqtt needs paho-mqtt: pip install 'protoreplay[mqtt]'") from None
    return client

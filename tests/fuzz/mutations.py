"""What is done to good input so that it is odd: bytes, and JSON that stays JSON."""

import copy
import json
import random
from typing import Any

ODD = (
    *(None, True, -1, 0, 1, 2**31, 2**63, -(2**64), 10**30, 0.5, -1e308, 1e308, float("nan"), float("inf")),
    *("", "a", "../a", "a\x1b[2Jb", "\x00", "é" * 300, "/etc/passwd", "lite2", "timm:x", "5", "\u202e"),
    *([], {}, [[]], [None] * 50, {"a": {"b": {"c": []}}}, [1, 2], ["x", "y"]),
)


def mutated_bytes(content: bytes, chance: random.Random) -> bytes:
    """Bits flipped, bytes set, cut off, left out or doubled; the head, where readers decide, more often."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 5, 30))):
        if not changed:
            break
        place = chance.randrange(min(len(changed), 200) if chance.random() < 0.5 else len(changed))
        match chance.randrange(6):
            case 0 | 1:
                changed[place] ^= 1 << chance.randrange(8)
            case 2:
                changed[place] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
            case 3:
                size = chance.choice((1, 2, 4, 8))
                changed[place : place + size] = chance.choice((b"\0", b"\xff", b"\x7f", b"[", b'"')) * size
            case 4:
                del changed[place : place + chance.choice((1, 4, 100, 10**9))]
            case 5:
                changed[place:place] = changed[place : place + chance.randrange(1, 300)]
    return bytes(changed)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """All containers with their keys, the outer ones first."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            found.append((one, key))
            waiting.append(one[key])
    return found


def mutated_value(value: Any, chance: random.Random) -> Any:
    """A value of JSON with a few of its parts replaced, left out, or added."""
    value = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 2, 4))):
        places = _places(value)
        if not places:
            return chance.choice(ODD)
        container, key = chance.choice(places)
        match chance.randrange(5):
            case 0 | 1:
                container[key] = copy.deepcopy(chance.choice(ODD))
            case 2 if isinstance(container, dict):
                del container[key]
            case 3 if isinstance(container, dict):
                container[str(chance.choice(ODD))] = container[key]
            case 4 if isinstance(container[key], int | float):
                container[key] = container[key] * chance.choice((-1, 0, 2, 10**12)) + chance.choice((0, 1, -1))
            case _:
                container[key] = copy.deepcopy(chance.choice(ODD))
    return value


def mutated_json(value: Any, chance: random.Random) -> str:
    """The same as a text, now and then nested more deeply than Python goes, or with bytes that are no JSON."""
    text = json.dumps(mutated_value(value, chance))
    match chance.randrange(12):
        case 0:
            return "[" * 100_000 + text
        case 1:
            return text.replace(":", ":" + '{"a":' * 5_000, 1)
        case 2:
            return mutated_bytes(text.encode(), chance).decode("utf-8", "replace")
        case 3:
            return text.replace("1", "1" * 5_000)
    return text

"""Anything at all may come in: the answer is never a failure of ours.

`PROTOREPLAY_MUTANTS=1000 pytest tests/photos/serve/test_fuzz.py` sends more broken pictures.
"""

import io
import os
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protoreplay.photos.serve import web_bundle
from tests.photos import fakes

MUTANTS = int(os.environ.get("PROTOREPLAY_MUTANTS", "100"))
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")


def mutant(content: bytes, chance: random.Random) -> bytes:
    """Cut off, overwritten, doubled in parts; the head, where the decoders decide, more often than the rest."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 3, 10, 100))):
        place = chance.randrange(min(len(changed), 64) if chance.random() < 0.5 else len(changed))
        changed[place] = chance.randrange(256)
    kind = chance.randrange(4)
    if kind == 0:
        del changed[chance.randrange(len(changed)) :]
    elif kind == 1:
        start = chance.randrange(len(changed))
        changed[start:start] = changed[start : start + chance.randrange(1, 400)]
    return bytes(changed)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::PIL.Image.DecompressionBombWarning")
def test_broken_pictures_are_refused_clearly(taught, served):
    originals = []
    for number, kind in enumerate(FORMATS):
        fakes.photo("red", 700 + number).save(buffer := io.BytesIO(), kind)
        originals.append(buffer.getvalue())
    chance = random.Random(0)
    refused = 0
    for number in range(MUTANTS):
        content = mutant(originals[number % len(originals)], chance)
        path = ("predict", "learn")[number % 10 == 0]
        before = served.current
        answer = taught.post(f"/api/{path}", data={"label": "mutant"}, files={"photos": ("p", content)})
        assert answer.status_code in (200, 413, 422), answer.text
        if answer.status_code != 200:
            refused += 1
            detail = answer.json()["detail"]
            assert "photo" in detail
            assert "\n" not in detail
            assert served.current is before
    assert refused > MUTANTS / 4


def values(schema: dict, schemas: dict) -> st.SearchStrategy:
    """Of a schema, and now and then not."""
    odd = st.one_of(st.none(), st.integers(), st.floats(), st.text(), st.lists(st.integers(), max_size=2))
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if schema.get("type") == "object":
        parts = {name: values(part, schemas) for name, part in schema["properties"].items()}
        return st.one_of(st.fixed_dictionaries({}, optional=parts), st.fixed_dictionaries(parts), odd)
    if schema.get("type") == "integer":
        return st.one_of(st.integers(), odd)
    return st.one_of(st.sampled_from(["red", "green", "../red", "\ud800", "a\x00b", ""]), st.text(), odd)


def requests_of(description: dict) -> st.SearchStrategy:
    """Method, path, query, JSON body or form of any operation described."""
    schemas = description["components"]["schemas"]
    picture = io.BytesIO()
    fakes.photo("red", 1).save(picture, "PNG")
    photos = st.lists(st.one_of(st.binary(max_size=40), st.just(picture.getvalue())), max_size=3)
    calls = []
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            parts = {
                p["name"]: st.one_of(st.text(max_size=20), st.integers().map(str))
                for p in operation.get("parameters", [])
            }
            kinds = operation.get("requestBody", {}).get("content", {})
            body = st.none()
            for kind, about in kinds.items():
                if kind == "application/json":
                    body = st.tuples(st.just("json"), values(about["schema"], schemas))
                else:
                    body = st.tuples(st.just("form"), st.tuples(st.one_of(st.text(), st.just("red")), photos))
            calls.append(st.tuples(st.just(method), st.just(path), st.fixed_dictionaries(parts), body))
    return st.one_of(calls)


def test_no_request_makes_the_server_fail(taught, monkeypatch):
    import json
    from urllib.parse import quote

    # Nothing is fetched, and no 14 MB are packed.
    monkeypatch.setattr(web_bundle, "browser_runtime", lambda: dict.fromkeys(web_bundle.DIGESTS, b""))

    @settings(max_examples=200, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(requests_of(taught.get("/openapi.json").json()))
    def check(call):
        method, path, parts, body = call
        query = {}
        for name, value in parts.items():
            value = value.encode("utf-8", "replace").decode()
            if f"{{{name}}}" in path:
                path = path.replace(f"{{{name}}}", quote(value, safe="") or "x")
            else:
                query[name] = value
        sent = {}
        if body and body[0] == "json":
            sent = {"content": json.dumps(body[1]).encode(), "headers": {"Content-Type": "application/json"}}
        elif body:
            label, photos = body[1]
            sent = {"data": {"label": label}, "files": [("photos", ("n", photo)) for photo in photos]}
        answer = taught.request(method, path, params=query, **sent)
        assert answer.status_code < 500, (call, answer.text)

    check()

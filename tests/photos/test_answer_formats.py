import json

import numpy as np

from protoreplay.photos.answer_formats import answer_as_json, answer_as_text
from protoreplay.photos.answers import Answer, Choice
from tests.photos import fakes


def test_the_unknown_is_said_with_the_closest_and_how_far_off(taught):
    stripes = np.zeros((32, 32, 3), np.uint8)
    stripes[:, ::2] = 255
    strange, known = taught.predict([stripes, fakes.photo("red", 90)])
    assert known.off < 1 < strange.off
    closest = strange.choices[0].label
    assert answer_as_text(strange) == (
        f"photo 1: unknown, closest is {closest}, {strange.off:.1f} times as far off as is accepted"
    )
    assert "%" not in answer_as_text(strange), "a probability beside 'unknown' is a contradiction to its reader"
    assert answer_as_text(known).startswith("photo 2: red ")
    assert json.loads(answer_as_json(strange))["off"] > 1
    taught.configure(unknown=0)
    assert next(taught.predict(stripes)).off == 0


def test_an_answer_without_choices(taught):
    (answer,) = taught.predict(fakes.photo("red", 90), top=0)
    assert answer_as_text(answer) == "photo 1: red"


def test_names_are_shown_without_control_characters():
    shown = answer_as_text(Answer("a\x1b[2J\n\u202eb.png", "red", (Choice("red", 0.9, 1.0),)))
    assert shown == "a\\x1b[2J\\n\\u202eb.png: red 90%"
    assert "\x1b" not in answer_as_text(Answer("a\x1b.png", None, error="odd \x1b"))

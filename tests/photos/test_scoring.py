"""What `evaluate` counts: refusals are neither right nor wrong, and photos of no known class are told apart."""

import csv
import io
import json

from protoreplay.photos import scoring
from protoreplay.photos.answers import Answer, Choice

SAID = {
    "cat": ["cat", "dog", None],
    "dog": ["dog", None, None],
    "yeti": ["cat", "cat", None],
}


def scored():
    said = [label for some in SAID.values() for label in some]
    answers = [Answer(f"{n}.jpg", label, (Choice(label or "cat", 0.75, 1.0),)) for n, label in enumerate(said)]
    answers[5] = Answer("5.jpg", None, error="not a picture")
    photos = {name: [f"{name}.jpg"] * len(some) for name, some in SAID.items()}
    heard = []
    return scoring.score_answers(lambda asked: answers, {"cat", "dog"}, photos, warn=heard.append), heard


def test_refusals_are_counted_for_each_class():
    score, heard = scored()
    about = json.loads(score.as_json())
    assert about["by_class"] == {
        "cat": {"photos": 3, "right": 1, "refused": 1, "wrong": 1},
        "dog": {"photos": 2, "right": 1, "refused": 1, "wrong": 0},
    }
    assert (about["photos"], about["refused"], about["answered_right"]) == (5, 0.4, 0.4)
    assert (about["unreadable"], heard) == (1, ["5.jpg: not a picture"])
    assert "  cat: 1 of 3 right, 1 'I do not know', 1 wrong" in score.as_text().splitlines()


def test_what_photos_of_no_known_class_are_taken_for():
    score, _ = scored()
    about = json.loads(score.as_json())
    assert about["strange_taken_for"] == [{"class": "yeti", "answer": "cat", "photos": 2}]
    assert about["mistakes"] == [{"class": "cat", "answer": "dog", "photos": 1}]
    assert "  yeti (no known class) taken for cat: 2" in score.as_text().splitlines()


def test_the_photos_not_answered_rightly_are_listed():
    score, _ = scored()
    rows = list(csv.DictReader(io.StringIO(scoring.wrong_as_csv(score.wrong))))
    assert [(row["photo"], row["class"], row["answer"]) for row in rows] == [
        ("1.jpg", "cat", "dog"),
        ("2.jpg", "cat", ""),
        ("4.jpg", "dog", ""),
        ("6.jpg", "yeti", "cat"),
        ("7.jpg", "yeti", "cat"),
    ]

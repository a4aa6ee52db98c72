"""After `forget`, a search finds nothing: not in the model, the cache, its log, or what killed writers left."""

import hashlib
import sqlite3

import pytest

from protoreplay import Classifier
from protoreplay.core.errors import UserError
from protoreplay.core.places import cache_folder
from protoreplay.photos import feature_cache, model_file
from tests.photos import fakes


def traces(secrets, *places):
    """Which files hold any of these byte strings."""
    files = [file for place in places for file in sorted(place.rglob("*")) if file.is_file()]
    return {file.name for file in files if any(secret in file.read_bytes() for secret in secrets)}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("PROTOREPLAY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


@pytest.fixture
def path(place, tiny, tmp_path):
    """A model of secret and other photos, and a temporary file that a killed writer left of it."""
    photos = fakes.pixels(fakes.photos(tmp_path / "photos"))
    classifier = Classifier(tiny)
    classifier.learn({"secret": photos["red"], "other": photos["green"]})
    classifier.save(place / "m")
    (place / ".m.4711.tmp").write_bytes((place / "m").read_bytes())
    return place / "m"


@pytest.fixture
def secrets(path, tmp_path, tiny):
    """Of the class: its name, and of each photo the features as they are cached, and as they are kept."""
    embedded = list(Classifier(tiny, cache=False).embed(sorted((tmp_path / "photos" / "red").iterdir())))
    cached = [one.features.tobytes()[:64] for one in embedded]
    kept = model_file.read_model(path).classes["secret"].sums.rows
    found = [b"secret", *cached, *(row.tobytes() for row in kept)]
    assert traces(found, path.parent) == {"m", ".m.4711.tmp"}
    assert any(name.startswith("features.sqlite") for name in traces(cached, cache_folder()))
    return found


def forget(path):
    from protoreplay.cli.photo_commands import changed_model

    with changed_model(path) as classifier:
        classifier.forget("secret")


def test_nothing_is_found_with_a_reader_and_a_writer_at_work(path, secrets, tmp_path, tiny):
    photos = sorted((tmp_path / "photos" / "red").iterdir())
    # One that has looked at the photos and has not yet written what it found, and one that looks into the cache.
    writer = feature_cache.FeatureCache(Classifier(tiny).encoder.fingerprint)
    fresh = list(Classifier(tiny, cache=False).embed(photos))
    reader = sqlite3.connect(writer.path)
    assert reader.execute("SELECT COUNT(*) FROM photos").fetchone() == (12,)
    writer.put({hashlib.sha256(p.read_bytes()).digest(): (one.features, one.look) for p, one in zip(photos, fresh)})
    forget(path)
    writer.__exit__()
    assert traces(secrets, path.parent, cache_folder()) == set()
    assert reader.execute("SELECT COUNT(*) FROM photos").fetchone() == (6,)
    reader.close()
    assert list(Classifier.load(path).model.classes) == ["other"]


def test_where_the_cache_is_held_nothing_is_forgotten_and_the_line_says_what_is_left(path, secrets, monkeypatch):
    monkeypatch.setattr(feature_cache.discard_features, "__defaults__", (None, 0.2))
    before = path.read_bytes()
    reader = sqlite3.connect(cache_folder() / "features.sqlite")
    reader.execute("BEGIN")
    reader.execute("SELECT COUNT(*) FROM photos").fetchone()
    with pytest.raises(UserError, match="because 6 feature vectors of these photos are still in"):
        forget(path)
    assert path.read_bytes() == before
    reader.close()
    forget(path)
    assert traces(secrets, path.parent, cache_folder()) == set()


def test_changing_a_model_keeps_who_may_read_it(path):
    path.chmod(0o600)
    link = path.with_name("link")
    link.symlink_to("m")
    before = path.stat().st_mode
    forget(link)
    assert link.is_symlink()
    assert path.stat().st_mode == before
    assert "secret" not in model_file.read_model(path).classes

"""The readers that are fuzzed, each with good input that is made odd. A target is made in an empty folder."""

import contextlib
import hashlib
import io
import json
import random
import sqlite3
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import safetensors.numpy

from protoreplay.core.errors import UserError
from tests.fuzz.mutations import mutated_bytes, mutated_json, mutated_value
from tests.photos import fakes

Case = Callable[[random.Random], None]


@contextlib.contextmanager
def model_target(place: Path) -> Iterator[Case]:
    """A model's file: bytes, its description, and its arrays, the last two under digests that are right."""
    from protoreplay.photos import class_summary, model_file
    from protoreplay.photos.photo_class import PhotoClass
    from protoreplay.photos.photo_model import PhotoModel
    from protoreplay.photos.undo import UndoableModel

    chance = np.random.default_rng(0)
    state = UndoableModel(PhotoModel("lite2", "f" * 64, keep=2))
    for start, name in enumerate(("cat", "dog", "bird")):
        keys = list(range(100 * start, 100 * start + (40 if name == "dog" else 4)))
        own = PhotoClass.of(chance.random((len(keys), 6)), keys, thumbnails={keys[0]: b"jpeg"})
        state = state.changed_to(state.model.learn({name: own}))
    state = state.changed_to(state.model.rename("bird", "duck"))
    good = model_file.model_to_bytes(state)
    arrays = safetensors.numpy.load(good)
    length = int.from_bytes(good[:8], "little")
    about = json.loads(json.loads(good[8 : 8 + length])["__metadata__"]["protoreplay"].partition(" ")[2])

    def forged(random: random.Random) -> bytes:
        tables, said = dict(arrays), about
        if random.random() < 0.5:
            name = random.choice(sorted(tables))
            tables[name] = _odd_array(tables[name], random)
            if random.random() < 0.2:
                del tables[name]
        said = {**said, "sha256": {key: hashlib.sha256(one.tobytes()).hexdigest() for key, one in tables.items()}}
        text = mutated_json(said, random) if random.random() < 0.7 else json.dumps(said)
        return safetensors.numpy.save(tables, {"protoreplay": f"{hashlib.sha256(text.encode()).hexdigest()} {text}"})

    def case(random: random.Random) -> None:
        content = mutated_bytes(good, random) if random.random() < 0.3 else forged(random)
        found = model_file.state_from_bytes(content, "it")
        with np.errstate(all="ignore"):
            if found.model.classes:
                head = found.model.head
                head.probabilities(head.scores(np.ones((1, found.model.width)))[0])
            list(class_summary.summary_lines(found.model))
            [class_summary.event_line(event) for event in found.model.history]
            model_file.model_to_bytes(found)

    yield case


def _odd_array(array: Any, random: random.Random) -> Any:
    match random.randrange(6):
        case 0:
            return array[: len(array) // 2].copy()
        case 1:
            return array.astype(random.choice(("float32", "int8", "uint64", "float64")))
        case 2:
            return np.concatenate([array, array])
        case 3:
            return array.reshape(-1, 1).copy()
        case 4:
            return np.zeros((0, *array.shape[1:]), array.dtype)
    changed = array.copy()
    if changed.size:
        odd = (0, 1, 2**40, -1) if changed.dtype.kind in "iu" else (0, -1, np.nan, np.inf, 1e300)
        with np.errstate(all="ignore"):
            changed.flat[random.randrange(changed.size)] = np.array(random.choice(odd)).astype(changed.dtype)
    return changed


@contextlib.contextmanager
def run_folder_target(place: Path) -> Iterator[Case]:
    """All files of a run, a finished one and one that was stopped, whose checkpoint is there."""
    from protoreplay.experiments import run as runs
    from protoreplay.experiments import snapshots
    from protoreplay.experiments.checkpoint import check_state
    from protoreplay.experiments.run_folder import ANSWER_ROWS, RunFolder, seconds_of
    from protoreplay.experiments.run_progress import RunProgress
    from protoreplay.experiments.spec import resolve

    spec = resolve(
        "split-digits", "vpr-paper", 0, {"tasks": 3, "shots": 2, "epochs": 1, "dim": 4, "samples": 2}, keep=True
    )

    class Stop(RunProgress):
        def task(self, position: int, accuracy: float, seconds: float) -> None:
            if position == 3:
                raise KeyboardInterrupt

    runs.execute(spec, place / "whole")
    with contextlib.suppress(KeyboardInterrupt):
        runs.execute(spec, place / "cut", Stop())
    files = [path for path in sorted(place.rglob("*")) if path.is_file() and path.name[0] != "."]
    contents = {path: path.read_bytes() for path in files}
    assert any(path.name == "checkpoint.safetensors" for path in files)
    fresh = spec.build(spec.stream())

    def case(random: random.Random) -> None:
        path = random.choice(files)
        content = contents[path]
        if path.suffix == ".json" and random.random() < 0.7:
            path.write_text(mutated_json(json.loads(content), random), errors="surrogateescape")
        elif path.suffix == ".jsonl" and random.random() < 0.7:
            lines = content.decode().splitlines()
            place = random.randrange(len(lines))
            lines[place] = mutated_json(json.loads(lines[place]), random).replace("\n", " ")
            path.write_text("\n".join(lines) + "\n", errors="surrogateescape")
        else:
            path.write_bytes(mutated_bytes(content, random))
        folder = RunFolder(path.parent if path.parent.name != "prototypes" else path.parent.parent)
        try:
            _read_run(folder)
        finally:
            for other, good in contents.items():
                other.write_bytes(good)

    def _read_run(folder: RunFolder) -> None:
        folder.refuse_other_run(config)
        folder.finished(), folder.shots(), seconds_of(folder.events())
        for name in ANSWER_ROWS:
            folder.answers(name)
        snapshots.load_snapshots(folder)
        saved = folder.resume()
        if saved.position:
            check_state(fresh, saved.state, "it")

    config = RunFolder(place / "whole").config()
    yield case


@contextlib.contextmanager
def caches_target(place: Path) -> Iterator[Case]:
    """The cache of features (SQLite), the feature store, a kept graph, kept answers, logs of sorting, and a dataset."""

    from protoreplay.data.cache import DatasetContent, DatasetFile
    from protoreplay.encoders import feature_store, pretrained
    from protoreplay.photos import bulk, sort_log, watching
    from protoreplay.photos.feature_cache import FeatureCache, discard_features
    from tests.data import fakes as datasets

    key, vector = hashlib.sha256(b"photo").digest(), np.ones(24, np.float32)
    database = place / "c" / "features.sqlite"
    with FeatureCache("one", database) as cache:
        cache.put({key: (vector, 5)})
    store = feature_store.FeatureStore("f" * 64, "tiny", place / "store")
    store.rows([key], lambda _: vector)
    (piece,) = (place / "store").rglob("*.features")
    photo = place / "photo.png"
    fakes.photo("red", 1).save(photo)
    log = place / "sorted"
    with sort_log.open_sort_log(log, print) as opened:
        opened.carry_out([[sort_log.FileStep("folder", "red"), sort_log.FileStep("link", "red/a", str(photo))]])
    watch = place / "watch.jsonl"
    arrived = watching.WatchState(watch)
    arrived._append({"place": "a", "mark": (1, 2, 3), "digest": "d"})
    answers = place / "answers-000000.json"
    answers.write_bytes(hashlib.sha256(b"a\n").hexdigest().encode() + b"\na\n")
    with _patched_data_folder(place / "data"):
        data = DatasetFile("mnist", "protoreplay data get mnist")
        with data.locked(print) as work:
            data.store(DatasetContent(datasets.tensors(), tuple("0123456789"), "a fake"), work)
        stored = data.path
        original = {path: path.read_bytes() for path in (database, piece, watch, answers, stored, log / sort_log.LOG)}
        graph = fakes.tiny_encoder(place / "g.onnx").read_bytes()
        kept = place / "encoders" / "fuzz.graph"

        def case(random: random.Random) -> None:
            path = random.choice([*original, kept])
            for extra in path.parent.glob(f"{path.name}-*"):
                extra.unlink()
            path.parent.mkdir(parents=True, exist_ok=True)
            good = original.get(path, graph)
            jsonl = path.suffix == ".jsonl"
            if jsonl and random.random() < 0.7:
                lines = [json.loads(line) for line in good.decode().splitlines() if line]
                path.write_text("\n".join(mutated_json(line, random) for line in lines), errors="surrogateescape")
            elif path == database and random.random() < 0.6:
                path.write_bytes(good)
                _spoil_table(path, random)
            elif path == piece and random.random() < 0.6:
                head, _, body = good.partition(b"\n")
                path.write_bytes(mutated_json(json.loads(head), random).encode("utf-8", "replace") + b"\n" + body)
            else:
                path.write_bytes(mutated_bytes(good, random))
            if path == database:
                with FeatureCache("one", path, width=24) as cache:
                    found = cache.get(key)
                    assert found is None or (found[0].shape == (24,) and np.isfinite(found[0]).all())
                    cache.put({key: (vector, 5)})
                discard_features(np.array([int.from_bytes(key[:8], "big")], np.uint64), path, 1.0)
            elif path == piece:
                feature_store.stored_features(place / "store")
                feature_store.FeatureStore("f" * 64, "tiny", place / "store").rows([key], lambda _: vector)
            elif path == watch:
                watching.WatchState(path)
            elif path == answers:
                assert bulk._read_answers(path) in (None, ["a"])
            elif path == stored:
                data.read()
                with contextlib.suppress(UserError):
                    data.verify()
            elif path == kept:
                _open_kept(pretrained, place, graph)
            else:
                sort_log.SortLog(log, settle=False)

        yield case


def _open_kept(pretrained: Any, place: Path, graph: bytes) -> None:
    """Whatever is kept, what comes is the encoder that was wanted."""
    made = pretrained.FrozenEncoder
    pretrained.FrozenEncoder = lambda *given: given
    folder, pretrained.cache_folder = pretrained.cache_folder, lambda: place
    try:
        assert pretrained._kept("fuzz", lambda: (32, "f", graph)) == ("fuzz", 32, "f", graph)
    finally:
        pretrained.FrozenEncoder, pretrained.cache_folder = made, folder


def _spoil_table(path: Path, random: random.Random) -> None:
    odd = random.choice([None, "text", 5, 1e9, b"", b"\0" * 12, b"\xff" * 1000])
    column = random.choice(["vector", "photo", "encoder", "used"])
    with contextlib.closing(sqlite3.connect(path)) as database, contextlib.suppress(sqlite3.Error), database:
        match random.randrange(5):
            case 0:
                database.execute("DROP TABLE photos")
            case 1:
                database.execute("CREATE VIEW other AS SELECT * FROM photos")
            case 2:
                database.execute("PRAGMA user_version = 2147483647")
            case _:
                database.execute(f"UPDATE photos SET {column} = ?", (odd,))


@contextlib.contextmanager
def _patched_data_folder(folder: Path) -> Iterator[None]:
    from unittest import mock

    with mock.patch.dict("os.environ", {"PROTOREPLAY_DATA": str(folder), "PROTOREPLAY_CACHE": str(folder / "cache")}):
        yield


@contextlib.contextmanager
def archives_target(place: Path) -> Iterator[Case]:
    """Zip, tar and tar.gz, of data and of photos."""
    from protoreplay.data.archives import archive_members
    from protoreplay.photos.zipped_photos import zipped_photos

    members = {
        "red/a.png": b"a" * 2000,
        "red/b.png": bytes(range(256)) * 10,
        "blue/" + "c" * 150: b"",
        "d.csv": b"x,y\n",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    originals = {"a.zip": packed.getvalue()}
    for mode, ending in (("w", "tar"), ("w:gz", "tar.gz")):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode=mode, format=tarfile.PAX_FORMAT) as tar:
            for name, content in members.items():
                about = tarfile.TarInfo(name)
                about.size = len(content)
                tar.addfile(about, io.BytesIO(content))
        originals[f"a.{ending}"] = file.getvalue()

    def case(random: random.Random) -> None:
        name = random.choice(sorted(originals))
        path = place / name
        path.write_bytes(mutated_bytes(originals[name], random))
        for _, read in archive_members(path, 10**6):
            assert len(read()) <= 10**6
        if name == "a.zip":
            for photo in zipped_photos(path):
                photo.read_bytes()

    yield case


@contextlib.contextmanager
def pictures_target(place: Path) -> Iterator[Case]:
    """Pictures in the usual formats."""
    from protoreplay.data.pictures import decode_picture

    originals = []
    for number, kind in enumerate(("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "ICO", "PPM")):
        fakes.photo("red", number).save(buffer := io.BytesIO(), kind)
        originals.append(buffer.getvalue())

    def case(random: random.Random) -> None:
        content = mutated_bytes(random.choice(originals), random)
        (square,) = decode_picture(io.BytesIO(content), 32, fast=True)
        assert square.shape == (3, 32, 32)

    yield case


@contextlib.contextmanager
def onnx_target(place: Path) -> Iterator[Case]:
    """ONNX files of one's own; what is read of them is not run."""
    from protoreplay.encoders.onnx_file import network_of_file

    good = fakes.tiny_encoder(place / "good.onnx", about={"mean": [0, 0, 0], "std": [1, 1, 1]}).read_bytes()

    def case(random: random.Random) -> None:
        path = place / "a.onnx"
        content = mutated_bytes(good, random)
        if random.random() < 0.5:
            fakes.tiny_encoder(path, about=mutated_value({"size": 32, "mean": [0, 0, 0], "std": [1, 1, 1]}, random))
        else:
            path.write_bytes(content)
        network_of_file(path)

    yield case


@contextlib.contextmanager
def http_target(place: Path) -> Iterator[Case]:
    """Requests to the server, of its own form and of none."""
    from fastapi.testclient import TestClient

    from protoreplay import Classifier
    from protoreplay.photos.serve import app
    from protoreplay.photos.serve.served_model import ServedModel

    new = Classifier(str(fakes.tiny_encoder(place / "tiny.onnx")), keep=2, cache=False)
    fakes.photo("red", 1).save(buffer := io.BytesIO(), "PNG")
    application = app.create_app(ServedModel(place / "m", new.encoder, new.model))
    with TestClient(application, base_url="http://127.0.0.1:8000", raise_server_exceptions=True) as client:
        client.post("/api/learn", data={"label": "red"}, files=[("photos", ("p", buffer.getvalue()))])
        paths = [(method, path) for path, one in client.get("/openapi.json").json()["paths"].items() for method in one]
        body = {"label": "red", "name": "red", "into": "red", "to": "blue", "unknown": 0.1, "top": 3}
        heads = ["content-type", "content-length", "host", "origin", "cookie", "authorization", "accept", "range"]

        def case(random: random.Random) -> None:
            method, path = random.choice(paths)
            path = path.replace("{", "").replace("}", "") if random.random() < 0.5 else path
            if random.random() < 0.2:
                path = "/" + quote(mutated_bytes(path.encode(), random).lstrip(b"/"))
            sent: dict[str, Any] = {}
            match random.randrange(4):
                case 0:
                    sent = {"content": mutated_json(body, random).encode("utf-8", "replace")}
                    sent["headers"] = {"content-type": "application/json"}
                case 1:
                    photo = mutated_bytes(buffer.getvalue(), random)
                    label = random.choice(["red", "x" * 5000, "\x00", "a\x1b", ""])
                    sent = {"data": {"label": label}, "files": [("photos", ("p" * random.randrange(300), photo))]}
                case 2:
                    form = b'--x\r\nContent-Disposition: form-data; name="label"\r\n\r\nred\r\n--x--\r\n'
                    sent = {"content": mutated_bytes(form, random)}
                    sent["headers"] = {"content-type": "multipart/form-data; boundary=x"}
            if random.random() < 0.3:
                odd = mutated_bytes(b"127.0.0.1:8000", random).decode("latin-1")
                odd = "".join(sign for sign in odd if sign.isprintable()).strip().encode("ascii", "ignore").decode()
                sent["headers"] = {**sent.get("headers", {}), random.choice(heads): odd}
            try:
                client.build_request(method, path, **sent)
            except Exception:  # what the client itself will not send
                return
            answer = client.request(method, path, **sent)
            if answer.status_code >= 500 and answer.status_code not in (501, 503, 507):
                raise AssertionError((method, path, sent, answer.text))
            if answer.status_code >= 400:
                raise UserError(f"{answer.status_code}")

        yield case


WORDS = (
    *("m", "absent", "photos", "photos/red/000.png", "run", ".", "", "-", "--", "\x00", "a\nb", "x" * 5000, "é"),
    *(
        "red",
        "--json",
        "--format",
        "json",
        "text",
        "csv",
        "--unknown",
        "0.1",
        "-1",
        "nan",
        "1e999",
        "--encoder",
        "lite9",
    ),
    *("absent.onnx", "--seeds", "1-2", "99999999999", "a-b", "--set", "lr=x", "=", "--force", "-o", "--output", "out"),
    *("--history", "--photo", "--class", "--list", "--evaluation", "validation", "--compare", "sgd,ewc", "--sort"),
)
COMMANDS = (
    *(
        "show",
        "forget",
        "rename",
        "unite",
        "undo",
        "redo",
        "merge",
        "export",
        "explain",
        "predict",
        "evaluate",
        "learn",
    ),
    *(
        "table",
        "report",
        "methods",
        "protocols",
        "check",
        "sort",
        "data",
        "run",
        "bench",
        "analyze",
        "suggest",
        "nothing",
    ),
)
SLOW = ("run", "bench")


@contextlib.contextmanager
def command_line_target(place: Path) -> Iterator[Case]:
    """Words of the command line, in any order; what would train or listen gets a protocol that is none."""
    from unittest import mock

    from protoreplay import Classifier, cli

    tiny = str(fakes.tiny_encoder(place / "tiny.onnx"))
    photos = fakes.pixels(fakes.photos(place / "photos", 1))
    classifier = Classifier(tiny, cache=False)
    classifier.learn(photos)
    classifier.save(place / "m")
    good = (place / "m").read_bytes()
    (place / "run").mkdir()
    (place / "run" / "config.json").write_text("{}")

    def case(random: random.Random) -> None:
        command = random.choice(COMMANDS)
        words = [command, *(["absent-protocol"] if command in SLOW else [])]
        words += [random.choice(WORDS) for _ in range(random.randrange(5))]
        # A shell cannot give these.
        words = ["protoreplay", *(word.replace("\0", "\x01") for word in words)]
        out, err = io.StringIO(), io.StringIO()
        (place / "m").write_bytes(good)
        with (
            contextlib.chdir(place),
            mock.patch.object(sys, "argv", words),
            mock.patch.object(sys, "stdin", io.StringIO()),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                cli.main()
            except SystemExit as stop:
                code = stop.code or 0
        if code not in (0, 1, 2) or "Traceback" in err.getvalue():
            raise AssertionError((words, code, err.getvalue()[-500:]))
        if code == 2:
            last = err.getvalue().splitlines()[-1]
            if not last.startswith("protoreplay: "):
                raise AssertionError((words, err.getvalue()[-500:]))
            raise UserError(last)

    yield case


TARGETS = {
    "model": model_target,
    "run folder": run_folder_target,
    "caches": caches_target,
    "archives": archives_target,
    "pictures": pictures_target,
    "onnx": onnx_target,
    "http": http_target,
    "command line": command_line_target,
}

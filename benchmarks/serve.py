"""The server under load: eight clients ask and one teaches, against `protoreplay predict` on the same photos.

Every answer is compared with what the library says with the model of the revision that the answer names.
"""

import argparse
import itertools
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from photos import write_photos

from protoreplay import Classifier
from protoreplay.photos import model_file
from protoreplay.photos.answers import Answer, stream_answers

RUN = [sys.executable, "-c", "from protoreplay.cli import main; main()"]
CLIENTS, TAUGHT, CLOSE = 8, 5, 1e-3


@dataclass
class Log:
    """What the clients saw."""

    answers: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
    models: dict[int, bytes] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0


def batch(model: Path, listed: Path, count: int) -> tuple[float, float]:
    """Photos a second of wall time, and CPU seconds a photo, of `protoreplay predict`."""
    before = os.times()
    command = [*RUN, "predict", str(model), "--list", str(listed), "--no-cache"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    after = os.times()
    seconds = re.search(r"photos in ([\d.]+) s", said)
    assert seconds, said
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return count / float(seconds[1]), used / count


def ask(address: str, photos: list[bytes], at_once: int, until: float, log: Log, seed: int) -> None:
    chance, session = random.Random(seed), requests.Session()
    while time.perf_counter() < until:
        chosen = [chance.randrange(len(photos)) for _ in range(at_once)]
        started = time.perf_counter()
        answer = session.post(f"{address}api/predict", files=[("photos", ("p", photos[i])) for i in chosen], timeout=60)
        log.waits.append(time.perf_counter() - started)
        if answer.status_code != 200:
            log.failures.append(answer.text)
            continue
        body = answer.json()
        log.answers += [(body["revision"], i, one) for i, one in zip(chosen, body["answers"], strict=True)]


def teach(address: str, photos: list[bytes], until: float, log: Log) -> None:
    session = requests.Session()
    for number in itertools.count():
        model = session.get(f"{address}api/model", timeout=60)
        log.models[int(model.headers["X-Revision"])] = model.content
        if time.perf_counter() > until:
            return
        some = [photos[(TAUGHT * number + i) % len(photos)] for i in range(TAUGHT)]
        files = [("photos", ("p", photo)) for photo in some]
        answer = session.post(f"{address}api/learn", data={"label": f"taught {number}"}, files=files, timeout=60)
        if answer.status_code != 200:
            log.failures.append(answer.text)
        time.sleep(1)


def load(model: Path, photos: list[bytes], lessons: list[bytes], at_once: int, seconds: float) -> tuple[Log, float]:
    """What the clients saw, and the server's CPU seconds."""
    server = subprocess.Popen(
        [*RUN, "serve", str(model), "--port", "0", "--no-token"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found
        log, until = Log(), time.perf_counter() + seconds
        arguments = [(found[0], photos, at_once, until, log, seed) for seed in range(CLIENTS)]
        threads = [threading.Thread(target=ask, args=given) for given in arguments]
        threads.append(threading.Thread(target=teach, args=(found[0], lessons, until, log)))
        begun, started = cpu(server.pid), time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads[:CLIENTS]:
            thread.join()
        log.seconds = time.perf_counter() - started
        threads[-1].join()
        return log, cpu(server.pid) - begun
    finally:
        server.kill()
        server.wait()


def cpu(pid: int) -> float:
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def agrees(given: dict[str, Any], expected: Answer) -> bool:
    pairs = list(zip(given["choices"], expected.choices, strict=False))
    close = all(abs(one["probability"] - other.probability) < CLOSE for one, other in pairs)
    same = given["label"] == expected.label or abs(expected.familiarity) < CLOSE
    return len(given["choices"]) == len(expected.choices) and close and same


def check(log: Log, photos: list[bytes], classifier: Classifier) -> None:
    """No answer may be of another model than the one it names."""
    seen = list(classifier.embed(photos))
    models = {revision: model_file.model_from_bytes(content, "served") for revision, content in log.models.items()}
    expected = {revision: list(stream_answers(seen, model)) for revision, model in models.items()}
    wrong = sum(not agrees(one, expected[revision][i]) for revision, i, one in log.answers)
    later = [(revision, i, one) for revision, i, one in log.answers if revision - 1 in expected]
    apart = sum(not agrees(one, expected[revision - 1][i]) for revision, i, one in later)
    print(f"{len(models)} revisions; {wrong} of {len(log.answers)} answers are not those of the revision they name")
    print(f"{apart} of {len(later)} answers differ from the revision before, so that a mixture would be seen")
    print(f"{len(log.failures)} requests failed {log.failures[:1] or ''}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--encoder", default="lite2")
    parser.add_argument("--photos", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=8, help="photos in a request; the page sends 8 at most")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, model = Path(name), Path(name) / "m"
        paths = write_photos(folder, given.photos + 60)
        asked, lessons = paths[: given.photos], paths[given.photos :]
        classifier = Classifier(given.encoder, keep=8, cache=False)
        classifier.learn({f"class {k}": lessons[10 * k : 10 * k + 10] for k in range(3)})
        classifier.save(model)
        listed = folder / "list"
        listed.write_text("\n".join(map(str, asked)))
        first = batch(model, listed, len(asked))
        photos = [path.read_bytes() for path in asked]
        log, used = load(model, photos, [path.read_bytes() for path in lessons[30:]], given.at_once, given.seconds)
        # Once more, because other programs may have slowed down one of them.
        second = batch(model, listed, len(asked))
        check(log, photos, classifier)
        count, rate = len(log.answers), len(log.answers) / log.seconds
        usual, share = (first[0] + second[0]) / 2, used / count
        print(f"{given.encoder}, {given.at_once} photos a request: {rate:.1f} answers a second under load;")
        print(f"predict {first[0]:.1f} before and {second[0]:.1f} after: {rate / usual:.0%} of its speed")
        least = min(first[1], second[1])
        print(f"CPU a photo: {1000 * share:.1f} ms with lessons, predict {1000 * least:.1f} ms with its start")
        waits = sorted(log.waits)
        print(f"a request waits {waits[len(waits) // 2]:.2f} s, the slowest {waits[-1]:.2f} s")


if __name__ == "__main__":
    main()

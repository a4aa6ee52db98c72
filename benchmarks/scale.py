"""What the books cost: `table` and `report` on many finished runs, `predict --work` on many photos.

    python benchmarks/scale.py runs 100000       # copies of one real run, then `table` and `report` of them
    python benchmarks/scale.py answers 1000000   # a tiny encoder answers photos that are links to a few files

Each command is a process of its own, whose seconds and highest memory are printed. The runs are those of one real run
with other seeds, settings and counts: what is measured is reading, grouping and testing, not learning.
"""

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SEEDS = 100
"""Of each method and setting; the others differ in a setting."""


def measured(words: list[str], folder: Path, kill_after: float | None = None) -> None:
    """Run a command and print what it took, or kill it after so many seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "protoreplay.cli", *words]
    with (folder / "out.txt").open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out)
        try:
            code = process.wait(kill_after)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{' '.join(words)[:70]}: {time.perf_counter() - start:.1f} s, {cpu:.1f} s of processor, "
        f"highest memory of a command so far {after.ru_maxrss / 1024:.0f} MB, exit code {code}",
        flush=True,
    )


def copied_runs(folder: Path, number: int) -> int:
    """Run folders `many/SETTING/seed-N`, made of one real run; returns their bytes."""
    real = folder / "real"
    words = ["run", "split-digits", "--method", "nearest-mean", "--out", str(real)]
    subprocess.run([sys.executable, "-m", "protoreplay.cli", *words], check=True, stdout=subprocess.DEVNULL)
    config = json.loads((real / "config.json").read_text())
    others = {path.name: path.read_bytes() for path in real.iterdir() if path.name not in ("config.json", "counts.csv")}
    header, *rows = (real / "counts.csv").read_text().splitlines()
    counts, draw, size = [list(map(int, row.split(","))) for row in rows], random.Random(0), 0
    for index in range(number):
        path = folder / "many" / f"filters-{index // SEEDS}" / f"seed-{index % SEEDS}"
        path.mkdir(parents=True)
        config["seed"], config["method"]["settings"]["filters"] = index % SEEDS, 100 + index // SEEDS
        lines = [f"{i},{j},{n},{max(0, min(n, right + draw.randint(-3, 3)))}" for i, j, n, right in counts]
        files = {
            "config.json": json.dumps(config, indent=2).encode(),
            "counts.csv": "\n".join([header, *lines, ""]).encode(),
        }
        for name, content in {**others, **files}.items():
            size += (path / name).write_bytes(content)
    return size


def runs(number: int, folder: Path) -> None:
    start = time.perf_counter()
    size = copied_runs(folder, number)
    print(
        f"{number:,} run folders, {size / number:,.0f} bytes each, written in {time.perf_counter() - start:.1f} s",
        flush=True,
    )
    measured(["table", "many", "--format", "csv"], folder)
    measured(["report", "many", "-o", "report.html"], folder)


def tiny_encoder(path: Path) -> None:
    """The mean colours of a photo in 2 x 2 fields: 12 features."""
    import onnx
    from onnx import TensorProto, helper

    pooled = helper.make_node("AveragePool", ["image"], ["fields"], kernel_shape=[16, 16], strides=[16, 16])
    flat = helper.make_node("Flatten", ["fields"], ["features"])
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, 32, 32])
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["N", 12])
    graph = helper.make_graph([pooled, flat], "tiny", [image], [features])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    about = {"size": 32, "mean": [127.5] * 3, "std": [127.5] * 3}
    model.metadata_props.add(key="protoreplay", value=json.dumps(about))
    onnx.save(model, path)


def answers(number: int, folder: Path) -> None:
    import numpy as np
    from PIL import Image

    tiny_encoder(folder / "tiny.onnx")
    draw = np.random.default_rng(0)
    for name, colour in {"red": (200, 60, 60), "green": (60, 200, 60), "blue": (60, 60, 200)}.items():
        (folder / "photos" / name).mkdir(parents=True)
        for index in range(8):
            noisy = np.clip(np.array(colour) + draw.normal(0, 40, (32, 32, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(folder / "photos" / name / f"{index}.png")
    photos = sorted(str(path) for path in (folder / "photos").rglob("*.png"))
    with (folder / "list.txt").open("w") as file:
        file.writelines(f"{photos[index % len(photos)]}\n" for index in range(number))
    measured(["learn", "tiny.model", "photos", "--encoder", "tiny.onnx"], folder)
    predict = ["predict", "tiny.model", "--list", "list.txt", "--format", "json", "--work", "work", "--no-cache"]
    measured(predict, folder, kill_after=max(10.0, number / 20_000))
    done = len(list((folder / "work").glob("answers-*")))
    print(f"killed with {done:,} of {-(-number // 1000):,} chunks written; the same command again:", flush=True)
    measured(predict, folder)
    lines = sum(1 for _ in (folder / "out.txt").open())
    print(f"{lines:,} answers for {number:,} photos")


if __name__ == "__main__":
    kind, count = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 2 else ("runs", 300)
    work = Path(tempfile.mkdtemp(prefix="protoreplay-scale-", dir=os.environ.get("TMPDIR")))
    try:
        {"runs": runs, "answers": answers}[kind](count, work)
    finally:
        shutil.rmtree(work)

"""Check an installed protoreplay, without its repository.

    python tools/smoke.py            # the default install: photos
    python tools/smoke.py research   # with the extras research and serve

Files of the package are there, and the main commands run in a new folder with the interpreter that runs this script.
"""

import importlib.resources
import subprocess
import sys
import tempfile
from pathlib import Path

FILES = (
    "py.typed",
    "methods/presets.json",
    "report/base.html",
    "report/parts.html",
    "report/results_page.html",
    "report/sections.html",
    "photos/serve/docs.html",
    "photos/serve/page/index.html",
    "photos/serve/page/base.css",
    "photos/serve/page/page.js",
)
PHOTOS = (
    "--version",
    "learn two.model photos",
    "predict two.model photos --format json",
    "show two.model",
    "forget two.model red",
    "export two.model -o two.onnx",
)
RESEARCH = (
    "methods show sgd@tuned",
    "bench split-digits --methods nearest-mean,slda --seeds 2 --set tasks=2",
    "table runs/split-digits --format md",
    "report runs/split-digits -o report.html",
    "serve --help",
)


def make_photos(folder: Path) -> None:
    from PIL import Image

    for name, colour in {"red": (200, 30, 30), "blue": (30, 30, 200)}.items():
        (folder / name).mkdir(parents=True)
        for number in range(4):
            photo = Image.new("RGB", (48, 48), colour)
            photo.putpixel((number, number), (255, 255, 255))
            photo.save(folder / name / f"{number}.png")


def main(kind: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        # Of the package nothing but what is installed may be found: not even the folder of this script.
        command = [sys.executable, "-P", "-m", "protoreplay.cli"]
        make_photos(Path(place) / "photos")
        for line in RESEARCH if kind == "research" else PHOTOS:
            print("protoreplay", line, flush=True)
            subprocess.run([*command, *line.split()], cwd=place, check=True, stdout=subprocess.DEVNULL, timeout=600)
    package = importlib.resources.files("protoreplay")
    missing = [name for name in FILES if not (package / name).is_file()]
    if missing or (Path(__file__).parents[1] / "src") in Path(str(package)).parents:
        sys.exit(f"protoreplay in {package}: missing {missing}, or not the installed one")
    print(f"{package}: all files are there")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "photos")

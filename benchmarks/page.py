"""The page at 100 classes of 10 photos: how long a view, the map and a correction take, and how fast live answers are.

    python benchmarks/page.py

Classes are made of random features around a mean each, so that no photos are needed; photos that are asked about are
noise. Times are of the browser: from the click until what was asked for is on the screen.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from photos import write_photos
from playwright.sync_api import Page, sync_playwright

from protoreplay.encoders.pretrained import open_encoder
from protoreplay.photos import model_file
from protoreplay.photos.photo_class import PhotoClass
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.photos.serve import samples

CLASSES, SHOTS = 100, 10
RUN = [sys.executable, "-c", "from protoreplay.cli import main; main()"]


def large_model(path: Path, encoder: str) -> None:
    """A model of random classes, each with thumbnails."""
    chance, used = np.random.default_rng(0), open_encoder(encoder)
    classes, thumbnail = {}, samples.sample_jpeg("apple", 0)
    for k in range(CLASSES):
        rows = chance.random(used.width) ** 2 + 0.35 * chance.normal(size=(SHOTS, used.width))
        keys = chance.integers(1, 2**62, SHOTS).tolist()
        looks = chance.integers(1, 2**62, SHOTS).tolist()
        rows = np.sqrt(np.abs(rows))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        classes[f"class {k:03}"] = PhotoClass.of(rows, keys, looks, dict.fromkeys(keys[:8], thumbnail))
    empty = PhotoModel(used.name, used.fingerprint, keep=8)
    model_file.write_model(empty.learn(classes), path)


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def switch(page: Page, name: str) -> float:
    """Milliseconds from the change of the address until the view is painted."""
    script = f"""() => new Promise(done => {{
      const started = performance.now();
      const seen = () => document.querySelector("#{name}").hidden ? requestAnimationFrame(seen)
        : requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - started)));
      location.hash = "#{name}";
      seen();
    }})"""
    return float(page.evaluate(script))


def measure(page: Page, photos: list[Path]) -> None:
    page.locator("article.class").nth(CLASSES - 1).wait_for(state="attached")
    page.wait_for_load_state("networkidle")
    page.locator("nav a", has_text="Model").click()
    spent = timed(lambda: page.locator(".marker").nth(CLASSES - 1).wait_for(state="attached"))
    print(f"the map of {CLASSES} classes appears after {spent:.2f} s")
    page.locator("nav a", has_text="Ask").click()
    spent = timed(lambda: ask(page, photos))
    print(f"{len(photos)} photos asked about: {spent:.1f} s, {len(photos) / spent:.1f} a second")
    for name in ("improve", "model", "teach", "ask"):
        switch(page, name)
        page.wait_for_load_state("networkidle")
    times = {name: sorted(switch(page, name) for _ in range(5))[2] for name in ("teach", "ask", "live", "model")}
    print("a view is shown after", ", ".join(f"{name} {spent:.0f} ms" for name, spent in times.items()))
    page.locator("nav a", has_text="Ask").click()
    page.locator("#ask .tile input").nth(0).check()
    page.locator("#ask .tile input").nth(19).click(modifiers=["Shift"])
    page.locator(".selection input").fill("class 007")
    done = page.locator("#toast", has_text=re.compile("taught as class 007"))
    started = time.perf_counter()
    page.locator(".selection .strong").click()
    done.wait_for()
    spent = time.perf_counter() - started
    print(f"20 photos corrected at {CLASSES} x {SHOTS}: {spent:.2f} s")
    page.locator("nav a", has_text="Live").click()
    page.get_by_role("button", name="Start the camera").click()
    page.wait_for_timeout(8000)
    print("live:", page.locator("#live .rate").inner_text())


def ask(page: Page, photos: list[Path]) -> None:
    page.locator("#ask .drop-zone input").first.set_input_files(photos)
    page.locator("#ask .tile").first.wait_for()
    page.locator("#ask .progress").wait_for(state="hidden", timeout=600_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="lite0")
    parser.add_argument("--photos", type=int, default=500)
    parser.add_argument("--browser", default="/usr/bin/chromium", help="a Chromium")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        large_model(Path(place) / "m", given.encoder)
        photos = write_photos(Path(place), given.photos)
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        command = [*RUN, "serve", f"{place}/m", "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            address = re.search(r"http://\S+", server.stdout.readline())
            assert address
            camera = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
            browser = playwright.chromium.launch(
                executable_path=given.browser, args=["--no-sandbox", "--disable-gpu", *camera]
            )
            page = browser.new_context(viewport={"width": 1280, "height": 860}, permissions=["camera"]).new_page()
            page.set_default_timeout(120_000)
            page.goto(address[0])
            measure(page, photos)
            browser.close()
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()

"""Makes the pictures of docs/serve.md: a server is started, taught and asked in a browser, and each view is taken.

    python tools/screenshots.py [--photos FOLDER]

FOLDER has a sub-folder of photos per class; without it, pictures of fruit are drawn.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter
from playwright.sync_api import Page, sync_playwright

DOCS = Path(__file__).parent.parent / "docs" / "serve"
SIDE = 320
Box = tuple[float, float, float, float]


def around(x: float, y: float, width: float, height: float) -> Box:
    return (x - width, y - height, x + width, y + height)


def fruit(kind: str, chance: random.Random) -> Image.Image:
    """One on a table, never twice the same."""
    wall, table = chance.randint(170, 235), chance.randint(90, 150)
    image = Image.new("RGB", (SIDE, SIDE), (wall, wall - 8, wall - 25))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, SIDE * chance.uniform(0.55, 0.7), SIDE, SIDE), fill=(table + 40, table, table - 40))
    x, y, r = chance.uniform(130, 190), chance.uniform(160, 195), chance.uniform(62, 88)
    shade = chance.randint(-25, 25)
    draw.ellipse(around(x + 8, y + r * 0.95, r, r * 0.2), fill=(table - 20, table - 40, table - 60))
    if kind == "apple":
        draw.ellipse(around(x, y, r, r * 0.94), fill=(195 + shade, 35, 40))
        draw.line((x, y - r * 0.8, x + r * 0.15, y - r * 1.25), fill=(80, 50, 20), width=6)
        draw.ellipse(around(x + r * 0.4, y - r * 1.1, r * 0.28, r * 0.12), fill=(60, 140 + shade, 50))
    elif kind == "lemon":
        draw.ellipse(around(x, y, r * 1.15, r * 0.78), fill=(238, 210 + shade // 2, 50))
        for side in (-1, 1):
            draw.ellipse(around(x + side * r * 1.12, y, r * 0.18, r * 0.14), fill=(238, 210 + shade // 2, 50))
    elif kind == "pear":
        draw.ellipse(around(x, y + r * 0.15, r * 0.85, r * 0.8), fill=(150 + shade, 180, 60))
        draw.ellipse(around(x, y - r * 0.7, r * 0.45, r * 0.6), fill=(150 + shade, 180, 60))
        draw.line((x, y - r * 1.2, x + 6, y - r * 1.5), fill=(80, 50, 20), width=6)
    else:  # a cup, which nobody teaches
        draw.rectangle(around(x, y, r * 0.8, r * 0.9), fill=(60, 90 + shade, 150))
        draw.arc(around(x + r * 0.8, y, r * 0.5, r * 0.5), -90, 90, fill=(60, 90 + shade, 150), width=14)
        draw.ellipse(around(x, y - r * 0.9, r * 0.8, r * 0.2), fill=(50, 30, 20))
    if kind != "cup":
        draw.ellipse(around(x - r * 0.35, y - r * 0.35, r * 0.16, r * 0.12), fill=(255, 250, 235))
    return image.filter(ImageFilter.GaussianBlur(chance.uniform(0.8, 2.0)))


def drawn(folder: Path) -> Path:
    chance = random.Random(0)
    for kind, count in (("apple", 9), ("lemon", 9), ("pear", 9), ("cup", 1)):
        (folder / kind).mkdir(parents=True)
        for number in range(count):
            fruit(kind, chance).save(folder / kind / f"{number}.jpg", quality=92)
    return folder


def story(page: Page, folder: Path) -> None:
    """Teach all photos of a class but one, ask about that one; a class of one photo is not taught."""
    classes = {place.name: sorted(map(str, place.iterdir())) for place in sorted(folder.iterdir()) if place.is_dir()}
    taught = {name: photos for name, photos in classes.items() if len(photos) > 1}
    form = page.locator("#new-class")
    for name, photos in taught.items():
        form.get_by_label("Name").fill(name)
        form.locator("input[type=file]").set_input_files(photos[1:])
        form.get_by_role("button", name="Learn").click()
        # It asks first where classes are alike.
        page.locator(f"article[aria-label='{name}'], #lesson button.strong").first.wait_for()
        if page.locator("#lesson button.strong").is_visible():
            page.click("#lesson button.strong")
        page.locator(f"article[aria-label='{name}']").wait_for()
    form.get_by_label("Name").fill("plum")
    page.evaluate("document.getElementById('toast').replaceChildren()")
    take(page, "teach")
    page.click("nav >> text=Ask")
    asked = [photos[0] for photos in (*list(taught.values())[:1], *(p for p in classes.values() if len(p) == 1))]
    page.locator("#ask-drop input").set_input_files(asked)
    page.locator(f"#answers article:nth-child({len(asked)}) h2").wait_for()
    take(page, "ask")
    page.click("nav >> text=Look")
    page.locator("#map svg").wait_for()
    take(page, "look")


def take(page: Page, name: str) -> None:
    page.wait_for_load_state("networkidle")
    page.screenshot(path=DOCS / f"{name}.png", full_page=True)
    print(DOCS / f"{name}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--browser", default="/usr/bin/chromium", help="a Chromium")
    given = parser.parse_args()
    DOCS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = given.photos or drawn(Path(place) / "photos")
        run = [sys.executable, "-c", "from protoreplay.cli import main; main()"]
        command = [*run, "serve", f"{place}/fruit.model", "--port", "0", "--encoder", "lite0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            address = re.search(r"http://\S+", server.stdout.readline())
            assert address
            browser = playwright.chromium.launch(executable_path=given.browser, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 900, "height": 600}, locale="en-GB")
            page.goto(address[0])
            story(page, folder)
            browser.close()
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()

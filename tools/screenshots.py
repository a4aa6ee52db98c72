"""Takes pictures of every view of the served page, in a real browser; the best six are in docs/serve.md.

    python tools/screenshots.py                     the six of docs/serve.md
    python tools/screenshots.py --all FOLDER        all views, empty and full, desk and phone, light and dark
    python tools/screenshots.py --all FOLDER --model birds.model --ask PHOTOS

Without a model, the page's own sample photos are taught and asked about.
"""

import argparse
import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

DOCS = Path(__file__).parent.parent / "docs" / "serve"
VIEWS = ("Teach", "Ask", "Live", "Improve", "Model")
DESK, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 800}
RUN = [sys.executable, "-c", "from protoreplay.cli import main; main()"]
MOST_BYTES = 200_000
DECODED = """
Promise.all([...document.images]
  .filter(one => one.src && (one.loading !== "lazy" || one.getBoundingClientRect().top < innerHeight))
  .map(one => one.decode().catch(() => {})))
"""


@contextlib.contextmanager
def served(model: Path) -> Iterator[str]:
    """The address of a server."""
    command = [*RUN, "serve", str(model), "--port", "0", *([] if model.exists() else ["--encoder", "lite0"])]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address
        yield address[0]
    finally:
        server.kill()
        server.wait()


def opened(browser: Browser, address: str, phone: bool = False, dark: bool = False) -> Page:
    page = browser.new_context(
        viewport=PHONE if phone else DESK,  # type: ignore[arg-type]
        has_touch=phone,
        is_mobile=phone,
        color_scheme="dark" if dark else "light",
        locale="en-GB",
        permissions=["camera"],
    ).new_page()
    page.set_default_timeout(60_000)
    page.goto(address)
    page.locator("#model-name", has_text=re.compile(".")).wait_for()
    return page


def view(page: Page, name: str) -> None:
    page.locator("nav a", has_text=name).click()
    page.wait_for_load_state("networkidle")
    page.evaluate("document.getElementById('toast').replaceChildren(); document.activeElement.blur()")


def take(page: Page, path: Path, whole: bool = False) -> None:
    page.wait_for_load_state("networkidle")
    page.evaluate(DECODED)
    page.screenshot(path=path, full_page=whole)
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    if path.stat().st_size > MOST_BYTES:
        small.save(path, optimize=True)
    print(path, path.stat().st_size)


def teach_samples(page: Page) -> None:
    page.get_by_role("button", name="Try it with sample photos").click()
    page.locator(".staging .bar button.strong").wait_for()


def ask(page: Page, photos: list[Path]) -> None:
    view(page, "Ask")
    if photos:
        page.locator("#ask .drop-zone input").first.set_input_files(photos)
    else:
        page.get_by_role("button", name="Ask about sample photos").click()
    page.locator("#ask .tile").first.wait_for()
    page.locator("#ask .progress").wait_for(state="hidden", timeout=600_000)


def six(browser: Browser, model: Path) -> None:
    """The pictures of the documentation."""
    with served(model) as address:
        page = opened(browser, address)
        take(page, DOCS / "first.png")
        teach_samples(page)
        page.locator(".staging .bar button.strong").click()
        page.locator("article.class").nth(2).wait_for()
        view(page, "Teach")
        page.locator("article.class .status.good, article.class .status.poor").nth(2).wait_for()
        take(page, DOCS / "teach.png")
        ask(page, [])
        view(page, "Ask")
        take(page, DOCS / "ask.png")
        page.locator(".tile .open").first.click()
        page.locator("dialog canvas.overlay").wait_for()
        take(page, DOCS / "details.png")
        page.keyboard.press("Escape")
        view(page, "Improve")
        page.locator(".curve svg").wait_for()
        take(page, DOCS / "improve.png")
        view(page, "Model")
        page.locator(".marker").nth(2).wait_for()
        take(page, DOCS / "model.png")


def everything(browser: Browser, folder: Path, model: Path, photos: list[Path], whole: bool) -> None:
    """Each view of one model, on the desk and on a phone, light and dark."""
    folder.mkdir(parents=True, exist_ok=True)
    with served(model) as address:
        for phone in (False, True):
            for dark in (False, True):
                page = opened(browser, address, phone, dark)
                name = f"{model.stem}-{'phone' if phone else 'desk'}-{'dark' if dark else 'light'}"
                count = len(json.loads(page.evaluate("fetch('/api/classes').then(one => one.text())"))["classes"])
                if count:
                    ask(page, photos)
                for one in VIEWS:
                    view(page, one)
                    if one == "Improve" and count > 1:
                        page.locator(".curve svg").wait_for()
                    if one == "Model" and count:
                        page.locator(".marker").first.wait_for()
                    take(page, folder / f"{name}-{one.lower()}.png", whole)
                page.context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="where all pictures go")
    parser.add_argument("--model", type=Path, help="a copy of it is served")
    parser.add_argument("--ask", type=Path, nargs="*", default=[], help="photos to ask about")
    parser.add_argument("--whole", action="store_true", help="the whole length of each view")
    parser.add_argument("--browser", default="/usr/bin/chromium", help="a Chromium")
    given = parser.parse_args()
    DOCS.mkdir(exist_ok=True)
    camera = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=given.browser, args=["--no-sandbox", "--disable-gpu", *camera]
        )
        model = Path(place) / "fruit.model"
        if given.all is None:
            six(browser, model)
        elif given.model is None:
            everything(browser, given.all, Path(place) / "empty.model", [], given.whole)
        else:
            everything(browser, given.all, Path(shutil.copy(given.model, place)), given.ask, given.whole)
        browser.close()


if __name__ == "__main__":
    main()

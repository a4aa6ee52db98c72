"""What a person does on the page, in a real browser."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit


def opened(browser, address, **given):
    """A page of the server; what must not happen is in its `problems`."""
    context = browser.new_context(**{"permissions": ["camera"], **given})
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.problems = []
    page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    origin = "{0.scheme}://{0.netloc}/".format(urlsplit(address))
    allowed = (origin, "blob:", "data:")
    page.on("request", lambda request: request.url.startswith(allowed) or page.problems.append(request.url))
    page.goto(address)
    page.locator("#model-name", has_text=re.compile(".")).wait_for()
    return page


def closed(page):
    """At the end: nothing went wrong."""
    assert not page.problems, page.problems
    page.context.close()


def view(page, name):
    page.locator("nav a", has_text=name).click()
    page.locator(f"#{name.lower()}:not([hidden]) > h1").wait_for(state="attached")


def drop_paths(page, target, paths: Sequence[Path]):
    """Files and folders from the desktop, dropped on an element."""
    target.scroll_into_view_if_needed()
    box = target.bounding_box()
    where = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    session = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, **where, "data": data})
    session.detach()


def teach_staged(page):
    page.locator(".staging .bar button.strong").click()


def teach_anyway(page):
    """Teach what is staged, also if the page has doubts."""
    teach_staged(page)
    page.locator("dialog .warnings").or_(page.locator("#toast", has_text="learned")).first.wait_for()
    if page.locator("dialog .warnings").is_visible():
        page.get_by_role("button", name="Teach anyway").click()


def toast(page, text):
    page.locator("#toast", has_text=re.compile(text)).wait_for()


def classes(page) -> dict[str, int]:
    """Of the server: photos by class."""
    state = json.loads(page.evaluate("fetch('/api/classes').then(answer => answer.text())"))
    return {one["label"]: one["photos"] for one in state["classes"]}


def ask(page, paths: Sequence[Path]):
    """Asks, and waits for all answers."""
    view(page, "Ask")
    page.locator("#ask .drop-zone input").first.set_input_files(paths)
    page.locator("#ask .tile").nth(0).wait_for()
    page.wait_for_function("n => document.querySelectorAll('#ask .tile[aria-busy=false]').length >= n", arg=len(paths))


def said(page) -> dict[str, str]:
    """The answers that are shown, by the name of the file."""
    tiles = page.locator("#ask .tile")
    labels = [one.get_attribute("aria-label") for one in tiles.locator(".open").all()]
    return {label.partition(": ")[0]: label.partition(": ")[2].partition(". Show")[0] for label in labels}

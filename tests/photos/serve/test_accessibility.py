"""axe-core finds nothing serious on any view, empty and full, light and dark."""

from importlib import resources

import pytest

from tests.photos import fakes
from tests.photos.serve.page_stories import ask, closed, opened, view
from tests.photos.serve.served import serving

FOUND = """
() => axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations
  .filter(one => ["serious", "critical"].includes(one.impact))
  .map(one => `${one.id}: ${one.nodes.slice(0, 3).map(node => node.html.slice(0, 200)).join(" | ")}`))
"""
VIEWS = ("Teach", "Ask", "Live", "Improve", "Model")


def check(page, where):
    """The colour of a button that was just pressed is not looked at before it has come to rest."""
    page.evaluate("() => Promise.all(document.getAnimations().map(one => one.finished.catch(() => {})))")
    assert page.evaluate(FOUND) == [], where


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_on_any_view(browser, tiny, tmp_path, scheme):
    photos = fakes.photos(tmp_path / "p", 3)
    fakes.photo("yellow", 900).save(tmp_path / "one yellow.png")
    with serving(tmp_path / "m", tiny) as address:
        page = opened(browser, address, color_scheme=scheme)
        # Run as the page's own script might not be: its policy allows no other scripts.
        page.evaluate((resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8"))
        for name in VIEWS:
            view(page, name)
            check(page, f"{name}, empty")
        view(page, "Teach")
        page.locator(".hero input[webkitdirectory]").set_input_files(photos)
        page.locator(".staged").nth(2).wait_for()
        check(page, "staged photos")
        page.locator(".staging .bar button.strong").click()
        page.locator("article.class").nth(2).wait_for()
        ask(page, [tmp_path / "one yellow.png", *sorted((photos / "red").iterdir())])
        for name in VIEWS:
            view(page, name)
            page.wait_for_load_state("networkidle")
            check(page, name)
        view(page, "Ask")
        page.locator("#ask .tile input").first.check()
        check(page, "a selection")
        page.locator(".tile .open").first.click()
        page.locator("dialog canvas.overlay").wait_for()
        check(page, "details")
        page.keyboard.press("Escape")
        view(page, "Teach")
        page.get_by_role("button", name="More for red").click()
        check(page, "a menu")
        page.get_by_role("menuitem", name="Forget").click()
        check(page, "a question")
        closed(page)

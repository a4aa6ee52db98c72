"""The page as a person uses it, in a real browser and with a real server."""

import base64
import re

import numpy as np
import pytest
from PIL import Image

from tests.photos import fakes
from tests.photos.serve.served import running

NAMELESS = """
[...document.querySelectorAll("button, input, select, a, img, progress, svg")].filter(element => {
  const name = element.getAttribute("aria-label") || element.getAttribute("alt") || element.textContent.trim()
    || [...(element.labels || [])].map(label => label.textContent.trim()).join("");
  return element.checkVisibility() && !name;
}).map(element => element.outerHTML)
"""

CAMERA_READY = """
new Promise(resolve => {
  const video = document.querySelector("#camera video");
  if (video.videoWidth) resolve();
  video.onloadedmetadata = () => resolve();
})
"""
DROPPED = """
content => {
  const bytes = Uint8Array.from(atob(content), letter => letter.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], "../p.png", {type: "image/png"}));
  return data;
}
"""


@pytest.fixture
def photos(tmp_path):
    """Paths by name: six photos of each colour, and single ones."""
    found = fakes.pixels(fakes.photos(tmp_path / "photos", colours=tuple(fakes.COLOURS)))
    for colour in fakes.COLOURS:
        fakes.photo(colour, 900).save(tmp_path / f"{colour}.png")
        found[f"one {colour}"] = [tmp_path / f"{colour}.png"]
    red, blue = (np.asarray(fakes.photo(colour, 901), float) for colour in ("red", "blue"))
    Image.fromarray((0.2 * red + 0.8 * blue).astype(np.uint8)).save(tmp_path / "bluish.png")
    # As many again of red, for a class that cannot be told from it.
    found["crimson"] = fakes.pixels(fakes.photos(tmp_path / "more", start=20, colours=("red",)))["red"]
    found["bluish"] = [tmp_path / "bluish.png"]
    return found


def opened(browser, address, **given):
    page = browser.new_page(**given)
    page.set_default_timeout(15_000)
    page.problems = []
    page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on(
        "request",
        lambda request: (
            request.url.startswith((address.partition("?")[0], "blob:", "data:")) or page.problems.append(request.url)
        ),
    )
    page.goto(address)
    return page


def teach(page, label, paths):
    page.click("nav >> text=Teach")
    form = page.locator("#new-class")
    form.get_by_label("Name").fill(label)
    form.locator("input[type=file]").set_input_files(paths)
    form.get_by_role("button", name="Learn").click()
    page.locator(f"article[aria-label='{label}']").wait_for()


def ask(page, paths):
    """The newest answer's card."""
    page.click("nav >> text=Ask")
    page.locator("#ask-drop input[type=file]").set_input_files(paths)
    page.locator("#answers article").first.locator("h2").wait_for()
    return page.locator("#answers article").first


def classes(page):
    page.click("nav >> text=Look")
    page.locator("#classes th[scope=row]").first.wait_for()
    return page.locator("#classes th[scope=row]").all_inner_texts()


def test_a_whole_story(browser, photos, tiny, tmp_path):
    model = tmp_path / "story.model"
    with running(model, "--encoder", tiny) as (_, address):
        page = opened(browser, address)
        teach(page, "red", photos["red"])
        teach(page, "green", photos["green"])
        assert page.locator("article[aria-label='red'] img").count() == 6
        for colour in ("red", "green"):
            assert ask(page, photos[f"one {colour}"]).locator("h2").inner_text() == colour
        teach(page, "blue", photos["blue"])
        for colour in ("red", "green", "blue"):
            assert ask(page, photos[f"one {colour}"]).locator("h2").inner_text() == colour
        assert ask(page, photos["one yellow"]).locator("h2").inner_text() == "I don't know"

        wrong = ask(page, photos["bluish"])
        assert wrong.locator("h2").inner_text() == "blue"
        wrong.get_by_label("It is another class").fill("purple")
        wrong.get_by_role("button", name="Teach").click()
        wrong.locator("h2", has_text="purple").wait_for()
        refused = ask(page, photos["one yellow"])
        refused.get_by_role("button", name="It is red").click()
        page.locator("#toast", has_text="Learned as red").wait_for()
        page.locator("#toast").get_by_role("button", name="Undo").click()
        page.locator("#toast", has_text="Undone").wait_for()

        assert classes(page) == ["blue", "green", "purple", "red"]
        page.get_by_role("button", name="Forget green").click()
        page.locator("#question").get_by_role("button", name="Forget").click()
        page.locator("#toast", has_text="green is forgotten").wait_for()
        assert classes(page) == ["blue", "purple", "red"]
        page.get_by_role("button", name="Undo the last change").click()
        page.get_by_role("button", name="Forget green").wait_for()
        page.reload()
        assert classes(page) == ["blue", "green", "purple", "red"]
        assert page.problems == []
        page.close()
    with running(model, "--encoder", tiny) as (_, address):
        page = opened(browser, address)
        assert classes(page) == ["blue", "green", "purple", "red"]
        assert ask(page, photos["one green"]).locator("h2").inner_text() == "green"
        page.close()


def test_what_a_new_class_does_is_said_first(browser, photos, tiny, tmp_path):
    with running(tmp_path / "m", "--encoder", tiny) as (_, address):
        page = opened(browser, address)
        teach(page, "red", photos["red"])
        teach(page, "blue", photos["blue"])
        form = page.locator("#new-class")
        for decision, expected in (("Do not learn it", ["blue", "red"]), ("Learn it", ["blue", "crimson", "red"])):
            page.click("nav >> text=Teach")
            form.get_by_label("Name").fill("crimson")
            form.locator("input[type=file]").set_input_files(photos["crimson"])
            form.get_by_role("button", name="Learn").click()
            assert "will be confused" in page.locator("#lesson li").first.inner_text()
            page.locator("#lesson").get_by_role("button", name=decision, exact=True).click()
            page.locator("#lesson").wait_for(state="hidden")
            page.locator("#toast", has_text=re.compile("crimson")).wait_for()
            assert classes(page) == expected

        page.get_by_role("button", name="Unite crimson").click()
        page.locator("#question select").select_option("red")
        page.locator("#question").get_by_role("button", name="Unite").click()
        page.locator("#toast", has_text="crimson is part of red").wait_for()
        assert classes(page) == ["blue", "red"]
        page.get_by_role("button", name="Rename red").click()
        page.locator("#question").get_by_label("Name").fill("scarlet")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Rename scarlet").wait_for()
        assert page.problems == []
        page.close()


def test_on_a_phone_by_keyboard_and_with_names_for_everything(browser, photos, tiny, tmp_path):
    with running(tmp_path / "m", "--encoder", tiny) as (_, address):
        page = opened(browser, address, viewport={"width": 360, "height": 740}, color_scheme="dark")
        teach(page, "red " + "x" * 60, photos["red"])
        teach(page, "blue", photos["blue"])
        ask(page, photos["one blue"])
        for view in ("Teach", "Ask", "Look"):
            link = page.locator(f"nav >> text={view}")
            link.focus()
            page.keyboard.press("Enter")
            page.locator(f"#{view.lower()}-title").wait_for()
            assert page.evaluate("document.activeElement.id") == f"{view.lower()}-title"
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
            assert page.evaluate(NAMELESS) == [], view
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 25, 29)"
        # From the name by the keyboard alone to the button that learns.
        page.click("nav >> text=Teach")
        page.locator("#teach-title:focus").wait_for()
        page.locator("#new-class").get_by_label("Name").focus()
        page.locator("#new-class input[type=file]").set_input_files(photos["green"])
        page.keyboard.type("green")
        page.keyboard.press("Enter")
        page.locator("article[aria-label='green']").wait_for()
        assert page.problems == []
        page.close()


def test_photos_from_the_camera_and_by_dropping(browser, photos, tiny, tmp_path):
    with running(tmp_path / "m", "--encoder", tiny) as (_, address):
        page = opened(browser, address, permissions=["camera"])
        form = page.locator("#new-class")
        form.get_by_role("button", name="Use the camera").click()
        page.evaluate(CAMERA_READY)
        for number in (1, 2):
            page.get_by_role("button", name="Take a photo").click()
            page.locator("#camera", has_text=f"{number} taken").wait_for()
        page.get_by_role("button", name="Done").click()
        form.get_by_label("Name").fill("test picture")
        form.get_by_role("button", name="Learn 2 photos").click()
        card = page.locator("article[aria-label='test picture']")
        card.wait_for()
        assert page.evaluate("document.querySelector('#camera video').srcObject.active") is False

        content = base64.b64encode(photos["red"][0].read_bytes()).decode()
        data = page.evaluate_handle(DROPPED, content)
        card.dispatch_event("drop", {"dataTransfer": data})
        card.get_by_role("button", name="Learn 1 photo").click()
        page.locator("#toast", has_text="test picture: 1 photo learned").wait_for()
        page.locator("article", has_text="3 photos seen").wait_for()
        assert page.problems == []
        page.close()

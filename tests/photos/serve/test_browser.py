"""The page as a person uses it, in a real browser and with a real server."""

import csv
import io
import json
import re
import shutil
import zipfile

import pytest

from tests.photos import fakes
from tests.photos.serve.page_stories import (
    ask,
    classes,
    closed,
    drop_paths,
    opened,
    said,
    teach_anyway,
    teach_staged,
    toast,
    view,
)
from tests.photos.serve.served import running, serving


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder with `taught` (a sub-folder for red, green and blue), and single photos to ask about."""
    place = tmp_path_factory.mktemp("photos")
    fakes.photos(place / "taught")
    for colour in fakes.COLOURS:
        fakes.photo(colour, 900).save(place / f"one {colour}.png")
    return place


@pytest.fixture(scope="module")
def model(tiny, photos, tmp_path_factory):
    """The file of a model that was taught red, green and blue."""
    from protoreplay import Classifier

    path = tmp_path_factory.mktemp("model") / "colours.model"
    known = Classifier(tiny, keep=4, cache=False)
    known.learn(fakes.pixels(photos / "taught"))
    known.save(path)
    return path


@pytest.fixture
def copied(model, tmp_path):
    return shutil.copy(model, tmp_path / "colours.model")


def test_the_first_minute_with_a_folder_drop(browser, photos, tiny, tmp_path):
    with serving(tmp_path / "m", tiny) as address:
        page = opened(browser, address)
        assert page.locator(".steps li").count() == 3
        drop_paths(page, page.locator(".hero-drop"), [photos / "taught"])
        names = page.locator(".staged input[type=text], .staged input:not([type])")
        names.nth(2).wait_for()
        assert [one.input_value() for one in names.all()] == ["blue", "green", "red"]
        # One photo is removed, and one moved to another class.
        page.locator(".staged").nth(0).locator("li").first.hover()
        page.locator(".staged").nth(0).get_by_role("button", name="Remove 000.png").click()
        page.locator(".staged").nth(1).locator("button.thumb").first.click()
        page.get_by_role("menuitem", name="Move to “red”").click()
        page.get_by_role("button", name="Teach 17 photos in 3 classes").wait_for()
        # The photo of another colour may be noticed.
        teach_anyway(page)
        toast(page, "17 photos learned: blue, green, red")
        assert classes(page) == {"blue": 5, "green": 5, "red": 7}
        # Undo brings the first minute back, redo the classes.
        page.locator("#toast").get_by_role("button", name="Undo").click()
        page.locator(".hero-drop").wait_for()
        page.locator("#toast").get_by_role("button", name="Redo").click()
        page.locator("article.class[aria-label=red]").wait_for()
        ask(page, [photos / "one red.png", photos / "one yellow.png"])
        answers = said(page)
        assert answers["one red.png"].startswith("red")
        assert answers["one yellow.png"].startswith("Not like anything taught. Closest: ")
        closed(page)


def test_a_single_folder_and_samples(browser, photos, tiny, tmp_path):
    with serving(tmp_path / "m", tiny) as address:
        page = opened(browser, address)
        page.get_by_role("button", name="Try it with sample photos").click()
        page.get_by_role("button", name="Teach 24 photos in 3 classes").wait_for()
        page.get_by_role("button", name="Clear all").click()
        drop_paths(page, page.locator(".hero-drop"), [photos / "taught" / "red"])
        page.get_by_role("button", name="Teach 6 photos in 1 class").wait_for()
        # Photos that are in no folder have no name yet: it is asked for.
        page.get_by_role("button", name="Clear all").click()
        drop_paths(page, page.locator(".hero-drop"), sorted((photos / "taught" / "green").iterdir()))
        teach_staged(page)
        toast(page, "Name every class first")
        page.keyboard.type("<img src=x onerror=alert(1)>")
        page.keyboard.press("Enter")
        toast(page, "6 photos learned")
        assert page.locator("article.class h3").inner_text() == "<img src=x onerror=alert(1)>"
        for name in ("Ask", "Improve", "Model", "Teach"):
            view(page, name)
        page.locator("article.class").wait_for()
        closed(page)


def test_two_classes_are_recorded_and_asked_live(browser, tiny, tmp_path):
    with serving(tmp_path / "m", tiny) as address:
        page = opened(browser, address)
        page.locator(".hero").get_by_role("button", name="Record with the camera").click()
        dialog = page.locator("dialog")
        for number, label in enumerate(("pacman", "other")):
            dialog.get_by_label("Class name").fill(label)
            hold = dialog.locator(".record")
            hold.hover()
            page.mouse.down()
            dialog.locator(".count", has_text=re.compile(r"^([3-9]|\d\d) photos kept")).wait_for()
            page.mouse.up()
            dialog.get_by_role("button", name=("Record another class", "Done")[number]).click()
        dialog.wait_for(state="detached")
        teach_anyway(page)
        toast(page, "learned")
        assert set(classes(page)) == {"pacman", "other"}
        view(page, "Live")
        page.get_by_role("button", name="Start the camera").click()
        page.locator("#live .rate", has_text="answers a second").wait_for()
        assert re.search("pacman|other", page.locator("#live .said").inner_text())
        view(page, "Teach")
        assert page.evaluate("document.querySelector('#live video').srcObject.active") is False
        closed(page)


def test_a_hundred_photos_are_asked_corrected_undone_and_redone(browser, copied, tiny, tmp_path):
    many = tmp_path / "many"
    fakes.photos(many, 25, 100, ("red", "green", "blue", "yellow"))
    paths = [path.rename(many / f"{path.parent.name} {path.name}") for path in sorted(many.rglob("*.png"))]
    with serving(copied, tiny) as address:
        page = opened(browser, address)
        ask(page, paths)
        before = said(page)
        assert len(before) == 100
        assert sum(words.startswith("red") for words in before.values()) >= 20
        unknown = page.locator(".chip.unknown")
        assert int(unknown.locator("b").inner_text()) >= 20
        unknown.click()
        tiles = page.locator("#ask .tile")
        tiles.locator("input[type=checkbox]").nth(0).check()
        tiles.locator("input[type=checkbox]").nth(19).click(modifiers=["Shift"])
        bar = page.locator(".selection")
        assert bar.locator(".count").inner_text() == "20 photos selected"
        bar.get_by_label("These are").fill("yellow")
        bar.get_by_role("button", name="Teach").click()
        toast(page, "20 photos taught as yellow")
        page.locator(".chip.all").click()
        page.wait_for_function("() => document.querySelectorAll('#ask .tile.unknown').length < 15")
        assert classes(page)["yellow"] == 20
        page.locator("#toast").get_by_role("button", name="Undo").click()
        page.wait_for_function("() => document.querySelectorAll('#ask .tile.unknown').length >= 20")
        assert said(page) == before
        assert "yellow" not in classes(page)
        page.locator("#toast").get_by_role("button", name="Redo").click()
        page.wait_for_function("() => document.querySelectorAll('#ask .tile.unknown').length < 15")
        assert classes(page)["yellow"] == 20
        takes_answers_away(page, paths)
        closed(page)


def takes_answers_away(page, paths):
    with page.expect_download() as table:
        page.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.DictReader(io.StringIO(table.value.path().read_text("utf-8"))))
    assert list(rows[0]) == ["photo", "label", "probability", "nearest", "familiarity", "error"]
    with page.expect_download() as packed:
        page.get_by_role("button", name="Save sorted (zip)").click()
    with zipfile.ZipFile(packed.value.path()) as content:
        assert content.testzip() is None
        folders = {name.partition("/")[2]: name.partition("/")[0] for name in content.namelist()}
        assert content.read(f"{folders[paths[0].name]}/{paths[0].name}") == paths[0].read_bytes()
    assert len(rows) == len(folders) == 100
    for row in rows:
        sure = row["label"] and float(row["probability"]) >= 0.5
        assert folders[row["photo"]] == (row["label"] if sure else "unsure" if row["label"] else "unknown")


def test_one_file_of_36_mb_among_eight(browser, photos, copied, tiny, tmp_path):
    some = tmp_path / "some"
    some.mkdir()
    for path in sorted((photos / "taught" / "red").iterdir()):
        shutil.copy(path, some)
    (some / "huge.png").write_bytes(b"\x89PNG" + bytes(36 * 2**20))
    broken = "<img src=x onerror=alert(1)>.jpg"  # a name that is markup is shown as it is
    (some / broken).write_bytes(b"no picture at all")
    with serving(copied, tiny) as address:
        page = opened(browser, address)
        drop_paths(page, page.locator("article.add"), [some])
        page.locator(".problems li", has_text="huge.png: 36.0 MB; 20 MB at most").wait_for()
        page.locator(".staged input").first.fill("crimson")
        page.get_by_role("button", name="Teach 7 photos in 1 class").wait_for()
        teach_anyway(page)
        toast(page, "6 photos learned: crimson. 1 photo could not be read")
        page.locator(".problems li", has_text=f"{broken}: not a picture").wait_for()
        assert page.locator(".staged button.thumb").count() == 0
        page.get_by_role("button", name=f"Remove {broken}").click()
        page.get_by_role("button", name="Remove huge.png").click()
        page.locator(".staging").wait_for(state="hidden")
        ask(page, sorted(some.iterdir()))
        answers = said(page)
        assert sum(bool(re.match("red|crimson", words)) for words in answers.values()) == 6
        assert page.locator(".tile.unread").count() == 2
        page.problems[:] = [one for one in page.problems if "422" not in one]  # the broken photo, asked alone
        closed(page)


def test_the_server_is_killed_and_restarted_under_the_page(browser, photos, copied, tiny):
    with running(copied, "--encoder", tiny, "--token", "a long secret") as (_, address):
        page = opened(browser, address)
        ask(page, [photos / "one red.png"])
        port = re.search(r":(\d+)/", address)[1]
    page.locator("#banner", has_text="does not answer").wait_for()
    page.locator("#ask .drop-zone input").first.set_input_files([photos / "one green.png"])
    page.locator(".tile.unread").wait_for()
    with running(copied, "--encoder", tiny, "--token", "a long secret", "--port", port):
        page.locator("#banner").wait_for(state="hidden")
        # What could not be asked is asked again, and what the new server has not seen can be corrected.
        page.wait_for_function("() => document.querySelectorAll('#ask .tile.unread').length === 0")
        page.locator(".tile .open[aria-label^='one red.png']").click()
        page.locator("dialog").get_by_role("button", name="Right, learn it").click()
        toast(page, "1 photo taught")
        assert classes(page)["red"] == 7
        page.problems[:] = [one for one in page.problems if "ERR_CONNECTION_REFUSED" not in one]
        closed(page)


def test_two_tabs_and_the_command_line(browser, photos, copied, tiny):
    from protoreplay.photos import model_file

    with serving(copied, tiny) as address:
        one, other = opened(browser, address), opened(browser, address)
        ask(other, [photos / "one red.png"])
        view(one, "Teach")
        one.get_by_role("button", name="More for red").click()
        one.get_by_role("menuitem", name="Rename").click()
        one.locator("dialog").get_by_label("Name").fill("scarlet")
        one.keyboard.press("Enter")
        one.locator("article.class[aria-label=scarlet]").wait_for()
        other.locator(".tile .said", has_text="scarlet").wait_for()
        state = model_file.read_state(copied)
        model_file.write_model(state.changed_to(state.model.forget("scarlet")), copied)
        one.locator("article.class[aria-label=scarlet]").wait_for(state="detached")
        other.locator(".tile.unknown").wait_for()
        closed(one)
        closed(other)


def test_classes_are_united_forgotten_and_lose_photos(browser, copied, tiny):
    with serving(copied, tiny) as address:
        page = opened(browser, address)
        page.get_by_role("button", name="More for blue").click()
        page.get_by_role("menuitem", name="Unite").click()
        page.locator("dialog select").select_option("red")
        page.locator("dialog").get_by_role("button", name="Unite").click()
        toast(page, "blue is now part of red")
        page.locator("#toast").get_by_role("button", name="Undo").click()
        page.locator("article.class[aria-label=blue]").wait_for()
        page.get_by_role("button", name="More for green").click()
        page.get_by_role("menuitem", name="Show photos").click()
        page.locator("dialog li").first.hover()
        page.get_by_role("button", name="Remove photo 1 of green").click()
        toast(page, "One photo of green was removed")
        assert classes(page)["green"] == 5
        page.keyboard.press("Escape")
        page.get_by_role("button", name="More for green").click()
        page.get_by_role("menuitem", name="Forget").click()
        page.locator("dialog").get_by_role("button", name="Forget").click()
        toast(page, "green is forgotten")
        view(page, "Model")
        steps = page.locator(".steps-list .what")
        steps.first.wait_for()
        assert steps.all_inner_texts()[:2] == ["Forget green", "Remove 1 photo of green"]
        page.get_by_role("button", name="Back to before this: Remove 1 photo of green").click()
        page.locator(".steps-list .redo").nth(1).wait_for()
        assert classes(page)["green"] == 6
        page.get_by_role("button", name="Redo: Remove 1 photo of green").click()
        page.wait_for_function("() => document.querySelectorAll('.steps-list .redo').length === 1")
        assert classes(page)["green"] == 5
        closed(page)


def test_details_say_why_and_improve_says_what_next(browser, photos, copied, tiny):
    with serving(copied, tiny) as address:
        page = opened(browser, address)
        ask(page, [photos / "one red.png", photos / "one yellow.png"])
        page.locator(".tile .open[aria-label^='one yellow.png']").click()
        dialog = page.locator("dialog")
        dialog.locator("canvas.overlay").wait_for()
        assert dialog.locator(".bars.refused li").count() == 3
        assert dialog.locator(".like li").count() == 3
        assert not re.search("distance", dialog.locator(".details").inner_text())
        page.keyboard.press("ArrowRight")
        dialog.locator("h2", has_text="one red.png").wait_for()
        page.keyboard.press("Escape")
        view(page, "Improve")
        suggestion = page.locator(".next .tile", has_text="Unknown. Closest")
        suggestion.wait_for()
        page.locator(".curve svg").wait_for()
        slider = page.get_by_label("Share of taught photos that may be refused")
        text = page.locator(".refusals [role=status]")
        refused = []
        for share in ("0", "10", "50"):
            slider.fill(share)
            refused.append(int((re.search(r"(\d+) would be answered", text.inner_text()) or [0, 0])[1]))
        assert refused[0] == 0
        assert refused == sorted(refused)
        assert refused[2] > 3
        page.get_by_role("button", name="Use this share").click()
        toast(page, "The share is now 50 %")
        assert json.loads(page.evaluate("fetch('/api/classes').then(a => a.text())"))["unknown"] == 0.5
        closed(page)


def test_on_a_phone(browser, photos, tiny, tmp_path):
    """At 320 pixels, with long and right-to-left names, nothing is cut off; by the keyboard, everything is reached."""
    long = fakes.photos(tmp_path / "p", 3)
    (long / "red").rename(long / ("red" + "x" * 60))
    (long / "blue").rename(long / "طائر أزرق صغير")
    phone = {"viewport": {"width": 320, "height": 640}, "has_touch": True, "is_mobile": True, "color_scheme": "dark"}
    with serving(tmp_path / "m", tiny) as address:
        page = opened(browser, address, **phone)
        assert page.locator(".hero .button.strong").inner_text() == "Take or choose photos"
        for folder in sorted(long.iterdir()):
            page.locator("#teach input[type=file]").locator("visible=true").first.set_input_files(
                sorted(folder.iterdir())
            )
            page.locator(".staged input").first.fill(folder.name)
            teach_staged(page)
            page.locator(f"article.class[aria-label='{folder.name}']").wait_for()
        ask(page, [photos / "one red.png", photos / "one yellow.png"])
        for name in ("Teach", "Ask", "Live", "Improve", "Model"):
            link = page.locator("nav a", has_text=name)
            link.focus()
            page.keyboard.press("Enter")
            page.locator(f"#{name.lower()}-title:focus").wait_for(state="attached")
            page.wait_for_load_state("networkidle")
            assert page.evaluate("document.documentElement.scrollWidth") <= 320, name
        closed(page)

"""The page as a browser sees it."""

import pytest

from protoreplay.analysis.results import collect
from protoreplay.report import figures
from protoreplay.report.results_page import write_results_page
from tests.report.fakes import many_runs

DRAWN = """
[...document.querySelectorAll("svg")].filter(svg => getComputedStyle(svg).display != "none").map(svg => {
  const marks = [...svg.querySelectorAll("path, use, image, text")].map(mark => mark.getBBox());
  const box = svg.getBoundingClientRect();
  const seen = marks.filter(mark => mark.width + mark.height > 0).length;
  return {width: box.width, height: box.height, right: box.right, marks: seen};
})
"""
TEXTS_OUTSIDE = """
[...document.querySelectorAll("svg text")].filter(text => {
  const [inner, outer] = [text.getBoundingClientRect(), text.closest("svg").getBoundingClientRect()];
  return outer.width && (inner.left < outer.left - 2 || inner.right > outer.right + 2);
}).map(text => text.textContent)
"""
INK = "getComputedStyle(document.querySelector('svg text')).fill"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The report of two methods and that of twenty."""
    made = {}
    for methods in (2, 20):
        root = tmp_path_factory.mktemp(f"runs-{methods}")
        many_runs(root, methods)
        made[methods] = root / "report.html"
        write_results_page(*collect(root), made[methods])
    return made


@pytest.mark.parametrize("methods", [2, 20])
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_opens_whole_and_alone(pages, browser, methods, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    problems, requests = [], []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(pages[methods].as_uri())
    drawn = page.evaluate(DRAWN)
    assert problems == []
    assert requests == [pages[methods].as_uri()]
    assert len(drawn) == len(figures.FIGURES)
    assert all(figure["width"] > 300 and figure["height"] > 50 and figure["marks"] > 10 for figure in drawn)
    assert all(figure["right"] <= width for figure in drawn)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(TEXTS_OUTSIDE) == []
    assert page.evaluate(INK) == {"light": "rgb(27, 31, 36)", "dark": "rgb(228, 231, 234)"}[scheme]
    page.close()

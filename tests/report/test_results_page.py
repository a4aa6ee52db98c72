import itertools
import re
from html.parser import HTMLParser

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from protoreplay.analysis.results import collect
from protoreplay.analysis.verdicts import any_measured
from protoreplay.experiments.run_folder import RunFolder
from protoreplay.report import figures, layout
from protoreplay.report.results_page import write_figures, write_results_page
from tests.report.fakes import fake_run, many_runs


class Outline(HTMLParser):
    """Headings, ids and elements in order."""

    def __init__(self):
        super().__init__()
        self.elements, self.ids, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [value for key, value in attrs.items() if key in ("href", "src", "xlink:href")]


def written(runs, path, **options):
    write_results_page(*collect(runs), path, **options)
    html = path.read_text()
    outline = Outline()
    outline.feed(html)
    return html, outline


def test_the_page_is_self_contained_and_runs_nothing(runs, tmp_path):
    fake_run(runs / "evil", "<script>alert(1)</script>", 0, [40, 20])
    html, outline = written(runs, tmp_path / "new" / "report.html")
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert all(link.startswith(("data:", "#")) for link in outline.links)
    assert not re.search(r"@import|url\((?!#)", html)
    for number in ("85.0 ± 10.0", "41.0 ± 11.0"):
        assert number in html


def test_ids_are_unique_and_every_reference_is_met(runs, tmp_path):
    _, outline = written(runs, tmp_path / "report.html")
    assert len(set(outline.ids)) == len(outline.ids)
    wanted = {link[1:] for link in outline.links if link.startswith("#")}
    assert wanted <= set(outline.ids)


def test_what_a_screen_reader_needs(runs, tmp_path):
    _, outline = written(runs, tmp_path / "report.html")
    levels = [int(tag[1]) for tag, _ in outline.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    drawn = [attrs for tag, attrs in outline.elements if tag == "svg"]
    assert len(drawn) == 2 * len(figures.FIGURES)
    assert all(attrs["role"] == "img" and "good" in attrs["aria-label"] for attrs in drawn)
    tags = [tag for tag, _ in outline.elements]
    assert tags.count("caption") == tags.count("table") == 1
    assert {attrs.get("scope") for tag, attrs in outline.elements if tag == "th"} == {"col", "row"}


def test_each_protocol_has_a_section(runs, tmp_path):
    fake_run(runs / "other", "good", 0, [90, 80], protocol="permuted-digits")
    _, outline = written(runs, tmp_path / "report.html", against="bad")
    assert [i for i in outline.ids if i.startswith("protocol-")] == ["protocol-1", "protocol-2"]


def test_the_claims_are_there_when_runs_speak_of_them(runs, tmp_path):
    assert not any_measured(collect(runs)[0])
    nine = {"protocol": "split-cifar10", "known_classes": list(range(2, 11))}
    fake_run(runs / "sgd", "sgd", 0, [10] * 9, {"epochs": 50}, **nine)
    html, outline = written(runs, tmp_path / "b.html")
    assert "claims" in outline.ids
    assert "<p>The claim that VPR has the highest average accuracy" in html


def test_the_same_runs_give_the_same_bytes(runs, tmp_path):
    assert written(runs, tmp_path / "a.html")[0] == written(runs, tmp_path / "b.html")[0]


def test_figures_for_papers(runs, tmp_path):
    paths = write_figures(collect(runs)[0], tmp_path / "figures")
    names = {f"split-digits-{name}.{ending}" for name in figures.FIGURES for ending in ("png", "svg", "pdf")}
    assert {path.name for path in paths} == names
    for path in paths:
        start = path.read_bytes()[:5]
        assert start == {".png": b"\x89PNG\r", ".svg": b"<?xml", ".pdf": b"%PDF-"}[path.suffix]
    with Image.open(tmp_path / "figures/split-digits-accuracy.png") as picture:
        assert picture.getpixel((0, 0))[:3] == (255, 255, 255)


@pytest.mark.parametrize(("methods", "narrow"), [(1, False), (8, True), (9, True), (30, False)])
def test_every_figure_names_every_method_it_shows(tmp_path, methods, narrow):
    many_runs(tmp_path, methods, seeds=2, tasks=3)
    groups, _ = collect(tmp_path)
    for drawing in figures.FIGURES.values():
        svg = figures.render_figure(figures.draw_figure(drawing, groups, narrow), "svg", inline=True).decode()
        shown = set(re.findall(r">(method-\d+)<", svg))
        assert shown == {group.label for group in groups[: figures.MOST]}


def test_nothing_of_a_figure_is_cut_off(tmp_path):
    for number in range(12):
        settings = {"replay_order": f"latest-{number}", "recall": f"variance-{number}", "tau": number}
        fake_run(tmp_path / str(number), "vpr-paper", 0, [60 - number, 50, 40], settings)
    groups, _ = collect(tmp_path)
    assert len(groups[0].label) > 40
    for drawing in figures.FIGURES.values():
        for narrow in (False, True):
            figure = figures.draw_figure(drawing, groups, narrow)
            width, height = figure.get_size_inches()
            box = figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer())
            assert box.x0 >= -0.03, drawing.title
            assert box.y0 >= -0.03, drawing.title
            assert box.x1 <= width + 0.03, drawing.title
            assert box.y1 <= height + 0.03, drawing.title


def test_every_panel_has_its_markers(tmp_path):
    many_runs(tmp_path, 9, seeds=1, tasks=3)
    svg = figures.render_figure(
        figures.draw_figure(figures.FIGURES["accuracy"], collect(tmp_path)[0]), "svg", inline=True
    ).decode()
    assert svg.count("<use ") == 9 * 3


def test_labels_keep_apart_and_above_the_floor():
    places = layout._apart([0.5, 0.5, 0.5, 0.02, 0.0], 0.1)
    assert all(above - below >= 0.1 - 1e-9 for above, below in itertools.pairwise(places))
    assert places[-1] >= 0
    assert places[0] == 0.5


def test_colours_stand_out_from_light_and_dark_pages():
    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    for colour in layout.COLOURS:
        for page in ("#ffffff", "#16191d"):
            lighter, darker = sorted([luminance(colour), luminance(page)], reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= 3


def with_answers(path, method):
    fake_run(path, method, 0, [90, 80])
    rows = [(2, 0, 0, 90), (2, 0, 1, 10), (2, 1, 0, 30), (2, 1, 1, 70)]
    RunFolder(path).write_answers({"confusion": rows})


def test_confusions_of_any_method_are_on_the_page_and_figures_have_a_width(tmp_path):
    with_answers(tmp_path / "runs/a", "sgd")
    fake_run(tmp_path / "runs/b", "older", 0, [90, 70])
    html, _ = written(tmp_path / "runs", tmp_path / "page.html")
    assert "What is taken for what" in html
    assert "sgd takes 30 % of class 1 for 0" in html
    paths = write_figures(collect(tmp_path / "runs")[0], tmp_path / "figures", width=3.3)
    assert {path.name for path in paths if "confusion" in path.name} == {
        f"split-digits-confusion.{ending}" for ending in ("png", "svg", "pdf")
    }
    for path in (path for path in paths if path.suffix == ".svg"):
        assert float(re.search(r'width="([\d.]+)pt"', path.read_text())[1]) == pytest.approx(3.3 * 72, abs=0.1), path

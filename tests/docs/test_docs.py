"""README and docs/: every block runs, every excerpt is true, every link leads somewhere, and the site builds."""

import doctest
import importlib
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import doc_blocks
import pytest
from PIL import Image

import protoreplay
from protoreplay import cli
from protoreplay.data import catalog
from protoreplay.methods.registry import METHODS
from protoreplay.streams import protocols

ROOT = Path(__file__).parent.parent.parent

PAGES = {str(page.relative_to(ROOT)): doc_blocks.blocks(page.read_text()) for page in doc_blocks.pages()}
RUN = [name for name, blocks in PAGES.items() if any(block.is_run for block in blocks)]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def small(words):
    """A long command with fewer and shorter tasks; what is given later on a command line counts."""
    kind, text = words[1], " ".join(words)
    if kind in ("run", "bench", "ablate", "ladder"):
        words = [*words, "--set", f"tasks={1 if 'photos' in text else 2}"]
        words += ["--set", "epochs=1"] if kind in ("ablate", "ladder") or "sgd" in text else []
        words += ["--set", "steps=2"] if kind == "ladder" else []
    words += ["--tasks", "1"] if kind == "tune" else []
    if kind in ("bench", "ablate", "ladder"):
        words += ["--seeds", "2" if "--keep-prototypes" in words else "1", "--jobs", "1"]
    return words


@pytest.fixture
def readers_folder(monkeypatch, tmp_path, small_cache):
    """Where a reader is: with photos, and stand-ins for what would be downloaded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalog, "download_dataset", lambda name, progress: catalog.dataset_file(name).path)
    monkeypatch.setattr(catalog, "import_dataset", lambda name, path, progress: path)
    for registry in (METHODS, catalog.DATASETS, protocols.PROTOCOLS):
        monkeypatch.setattr(registry, "_session", {})
    colours = {"photos/crow": "black", "photos/swan": "white", "more": "navy", "walk": "grey"}
    for place, colour in colours.items():
        (tmp_path / place).mkdir(parents=True)
        for number in range(8):
            photo = Image.new("RGB", (20, 20), colour)
            photo.putpixel((number, 3), (200, 10 * number, 90))
            photo.save(tmp_path / place / f"{number}.png")
    (tmp_path / "walk" / "0.png").rename(tmp_path / "walk" / "1.jpg")
    return tmp_path


def run_command(monkeypatch, line):
    words = shlex.split(line)
    if words[0] == "make":
        subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=60)
        return
    assert words[0] == "protoreplay", f"{line}: cannot be run here; say why in the block's first line"
    monkeypatch.setattr(sys, "argv", small(words))
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code, line


@pytest.mark.parametrize("page", RUN)
def test_the_blocks_of_a_page_run(page, monkeypatch, readers_folder):
    """In order, as a reader would, with small settings; `make` targets are only looked up."""
    namespace = {"__name__": "page"}
    for block in filter(lambda block: block.is_run, PAGES[page]):
        if block.language == "python":
            exec(compile(block.text, page, "exec"), namespace)
        else:
            for line in block.commands():
                run_command(monkeypatch, line)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_it_is(page):
    for block in PAGES[page]:
        assert block.language in ("sh", "python", "text"), f"{page}: {block.text}"
        if block.text.startswith(doc_blocks.NOT_RUN):
            reason = block.text.splitlines()[0].removeprefix(doc_blocks.NOT_RUN)
            assert len(reason.split()) > 3, f"{page}: {reason}"


def test_what_a_block_that_is_not_run_installs_exists():
    extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)
    named = [extra for blocks in PAGES.values() for b in blocks for extra in re.findall(r"install.*\[(\w+)\]", b.text)]
    assert named
    assert set(named) <= set(extras)


def test_excerpts_are_in_the_source():
    def code(text):
        return [line.strip() for line in text.splitlines() if line.strip()]

    excerpts = [block for blocks in PAGES.values() for block in blocks if block.excerpt_of]
    assert len(excerpts) > 5
    for block in excerpts:
        wanted, source = code(block.text), code((ROOT / block.excerpt_of).read_text())
        found = any(source[i : i + len(wanted)] == wanted for i in range(len(source)))
        assert found, f"not in {block.excerpt_of}:\n{block.text}"


def anchors(page):
    titles = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(n for n in PAGES if n[0] == "d")])
def test_links_lead_somewhere_in_the_repository(page):
    for link in LINK.findall((ROOT / page).read_text()):
        path, _, anchor = link.partition("#")
        if not path.startswith("http"):
            target = (ROOT / page).parent / path if path else ROOT / page
            assert target.exists(), link
            assert not anchor or target.name == "api.md" or anchor in anchors(target), link


def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path):
    """Links between pages, also to headings of the reference, are checked by the build."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=600
    )
    assert built.returncode == 0, built.stderr
    assert built.stderr == built.stdout == ""
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.html")}
    assert {"index.html", "api.html", "methods/vpr.html", "results.html", "results/photos/index.html"} <= pages.keys()
    assert pages["results/split-cifar10/report.html"].count("<svg") > 5
    assert "unweighted" in pages["results/ablations/ablations.html"].lower()
    for name, page in pages.items():
        assert not re.findall(r"<(?:script|img|iframe)[^>]+src=\"?https?:", page), name
        assert not re.findall(r"<link[^>]+stylesheet[^>]+href=\"?https?:", page), name
        assert "arithmatex" not in page, name
    assert pages["method.html"].count("<math") > 20
    assert "expected_squared_distances" in pages["api.html"]


def test_the_examples_in_docstrings_are_true():
    tried = 0
    for module in pkgutil.walk_packages(protoreplay.__path__, "protoreplay."):
        result = doctest.testmod(importlib.import_module(module.name))
        assert result.failed == 0, module.name
        tried += result.attempted
    assert tried >= 4

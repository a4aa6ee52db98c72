"""What the site needs beside MkDocs: formulas without a script or a network, and the recorded results as pages.

Formulas become MathML, which browsers draw themselves. The files of results/ lie outside docs/, so that links between
the two are written as they are in the repository and changed here into those of the site. Pages with figures are made
of the recorded counts while the site is built, and results/README.md and DETAILS.md become results.md and
results-details.md with links to them.
"""

import functools
import html
import posixpath
import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from recorded import CLIMBED, LADDER_DRAWING, ladder_drawing, ladder_markdown, recorded_pages
from results_readme import page as results_details
from results_readme import story as results_story

ROOT = Path(__file__).parent.parent
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
LADDER_HERE = re.compile(r"<!-- the ladder of (\S+) -->")
"""Where a page shows what is recorded of a ladder, by the name of its folder."""
LINK = re.compile(r"(?<=\]\()(\.\./[^)#\s]+)")
RESULT_PAGES = {"results/README.md": "docs/results.md", "results/DETAILS.md": "docs/results-details.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    results = ROOT / "results"
    for path in sorted(results.glob("*/**/*")):
        if path.is_file():
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    for folder in sorted(path.parent for path in results.glob("*/counts.csv")):
        for name, content in _pages(folder).items():
            files.append(File.generated(config, f"results/{folder.name}/{name}", content=content))
        if folder.name.startswith(CLIMBED):
            drawn = f"results/{folder.name}/{LADDER_DRAWING}"
            files.append(File.generated(config, drawn, content=_ladder(folder)))
    first = results_story(results, "results-details.md", "results/", drawn=True)
    files.append(File.generated(config, "results.md", content=first))
    details = results_details(results, "results/", drawn=True, first="results.md")
    files.append(File.generated(config, "results-details.md", content=details))
    return files


# So that `mkdocs serve` draws them once, not after every change of a text.
_pages = functools.cache(recorded_pages)
_ladder = functools.cache(ladder_drawing)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = page.file.src_uri
    climbed = re.fullmatch(rf"results/({CLIMBED}[^/]+)/README.md", source)
    if climbed:
        markdown = f"{markdown}\n\n<!-- the ladder of {climbed[1]} -->\n"
    here = posixpath.dirname(source) or "."
    markdown = LADDER_HERE.sub(lambda found: _recorded_ladder(found[1], here), markdown)
    folder = posixpath.dirname(source if source.startswith("results/") else f"docs/{source}")
    return LINK.sub(lambda found: _on_site(found[1], folder, posixpath.dirname(source)), markdown)


def _recorded_ladder(name: str, here: str) -> str:
    """The ladder recorded in a folder of that name, for a page of the site that lies in `here`."""
    return ladder_markdown(ROOT / "results" / name, posixpath.relpath(f"results/{name}/{LADDER_DRAWING}", here))


def _on_site(link: str, folder: str, page_folder: str) -> str:
    """A link of a file in `folder` of the repository, as one of the page in `page_folder` of the site."""
    target = posixpath.normpath(posixpath.join(folder, link))
    if (ROOT / target).is_dir():
        target += "/README.md"
    target = RESULT_PAGES.get(target, target)
    return posixpath.relpath(target.removeprefix("docs/"), page_folder or ".")


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return FORMULA.sub(_formula, content)


def _formula(found: re.Match[str]) -> str:
    text = html.unescape(found[2]).strip().replace(r"\arg", r"\operatorname{arg}")
    drawn = convert(text, display="block" if found[1] == "div" else "inline")
    if "\\" in drawn:
        raise PluginError(f"a command in this formula is not known: {text}")
    return drawn

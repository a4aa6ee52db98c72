import shutil
from pathlib import Path

import pytest

from protoreplay.core import source_digest
from protoreplay.core.source_digest import digest_of

SLDA = ("protoreplay.methods.slda:SLDA",)
FILE = """
from protoreplay.prototypes.distances import squared_distances

def near(a, b):
    return squared_distances(a, b).argmin(1)
"""


@pytest.fixture
def changed(tmp_path, monkeypatch):
    """Edits a copy of the package and returns the digest of what is made of it."""
    shutil.copytree(source_digest._HOME, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(source_digest, "_HOME", tmp_path / "copy")

    def edit(file, old, new, roots=SLDA):
        path = tmp_path / "copy" / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
        source_digest._module_source.cache_clear()
        try:
            return digest_of.__wrapped__(roots)
        finally:
            path.write_text(text)
            source_digest._module_source.cache_clear()

    return edit


def test_a_changed_formula_is_other_source_wherever_it_stands_and_a_comment_is_not(changed):
    before = digest_of(SLDA)
    assert changed("methods/slda.py", "self.", "self.\\\n", SLDA) == before  # another layout
    assert changed("methods/slda.py", "class SLDA", "# a comment\nclass SLDA") == before
    assert changed("methods/slda.py", "class SLDA", "def unused():\n    return 1\n\n\nclass SLDA") == before
    assert changed("methods/ewc.py", "class EWC", "CHANGED = 1\n\n\nclass EWC") == before
    draws = ("protoreplay.streams.draws:task_classes",)
    said = 'raise UserError(f"class_order lists class'
    assert changed("streams/draws.py", said, said.replace("lists", "names"), draws) == digest_of(draws)
    assert changed("methods/base.py", "PREDICT_BATCH = 256", "PREDICT_BATCH = 255") != before
    assert changed("core/rng.py", "    return", "    print()\n    return") != before
    assert changed("core/progress.py", "def ", "CHANGED = 1\n\n\ndef ") == before


def test_of_a_file_all_counts_and_what_it_uses_of_the_package(changed, tmp_path):
    roots = (str(tmp_path / "mine.py"),)
    Path(roots[0]).write_text(FILE)
    before = digest_of.__wrapped__(roots)
    Path(roots[0]).write_text(FILE.replace("argmin", "argmax"))
    assert digest_of.__wrapped__(roots) != before
    Path(roots[0]).write_text(f'"""Mine."""\n{FILE}')
    assert digest_of.__wrapped__(roots) == before
    assert changed("prototypes/distances.py", "    return", "    print()\n    return", roots) != before
    Path(roots[0]).unlink()
    assert digest_of.__wrapped__(roots) is None

import method_pages

from protoreplay.methods import REGISTRY


def test_every_method_has_a_page_and_it_is_up_to_date():
    pages = method_pages.pages()
    assert sorted(name for names in method_pages.page_names().values() for name in names) == sorted(REGISTRY)
    for path, text in pages.items():
        assert path.read_text() == text, f"run python tools/method_pages.py ({path.name} is old)"
        for part in ("## Formula", "## What it keeps", "## Settings", "## Numbers"):
            assert part in text, path.name

import importlib.util
from pathlib import Path

from protoreplay.methods import REGISTRY

TOOL = Path(__file__).parent.parent / "tools" / "method_pages.py"


def tool():
    spec = importlib.util.spec_from_file_location("method_pages", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_method_has_a_page_and_it_is_up_to_date():
    pages = tool().pages()
    assert sorted(name for names in tool().page_names().values() for name in names) == sorted(REGISTRY)
    for path, text in pages.items():
        assert path.read_text() == text, f"run python tools/method_pages.py ({path.name} is old)"
        for part in ("## Formula", "## What it keeps", "## Settings", "## Numbers"):
            assert part in text, path.name

import json

import method_pages

from protoreplay.methods.registry import METHODS


def test_every_method_has_a_page_and_it_is_up_to_date():
    pages = method_pages.pages()
    assert sorted(name for names in method_pages.page_names().values() for name in names) == sorted(METHODS)
    for path, text in pages.items():
        assert path.read_text() == text, f"run python tools/method_pages.py ({path.name} is old)"
        for part in ("## Formula", "## What it keeps", "## Settings", "## Numbers"):
            assert part in text, path.name


def test_numbers_are_those_recorded(monkeypatch, tmp_path):
    row = {"protocol": "split-digits", "method": "vpr", "seeds": 1, "kept_numbers": 1000}
    row |= {"avg": 90.04, "avg_std": None, "final": 80.0, "final_std": 1.25}
    (tmp_path / "results/small").mkdir(parents=True)
    (tmp_path / "results/small/table.json").write_text(json.dumps([row, {**row, "method": "sgd"}]))
    monkeypatch.setattr(method_pages, "ROOT", tmp_path)
    line = "| vpr | split-digits | 1 | 90.0 | 80.0 ± 1.2 | 1,000 | [small](../../results/small/README.md) |"
    assert method_pages.numbers(["vpr"])[2:] == [line]

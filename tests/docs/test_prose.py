import prose


def test_no_text_has_a_phrase_that_the_style_guide_refuses():
    assert prose.problems() == []


def test_a_phrase_is_found_across_lines_and_with_capitals_but_not_inside_words():
    phrases = prose.refused_phrases((prose.ROOT / prose.GUIDE).read_text())
    assert {"could not be got", "points of percent", "by a fault of the program"} <= set(phrases)
    assert list(prose.found_phrases("One.\nPoints of\npercent, twice", phrases)) == [(1, "points of percent")]
    assert list(prose.found_phrases("the floors", phrases)) == []


def test_help_texts_messages_and_the_served_page_are_read():
    names = {name for name, _, _ in prose.texts()}
    read = {
        "README.md",
        "docs/photos.md",
        "src/protoreplay/cli/options.py",
        "src/protoreplay/photos/serve/page/index.html",
    }
    assert read <= names

"""A file over 400 lines or a function over 60 asks to be split along a seam that already has a name."""

from tests.architecture.source import functions, modules

LINES_OF_A_FILE = 400
LINES_OF_A_FUNCTION = 60


def test_no_file_is_long():
    long = {path: len(text.splitlines()) for path, text in modules()}
    assert {path: lines for path, lines in long.items() if lines > LINES_OF_A_FILE} == {}


def test_no_function_is_long():
    long = {(path, name): lines for path, text in modules() for name, lines in functions(text)}
    assert {place: lines for place, lines in long.items() if lines > LINES_OF_A_FUNCTION} == {}

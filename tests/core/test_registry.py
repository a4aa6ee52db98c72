import pickle
import subprocess
import sys

import pytest

from protoreplay.core import registry
from protoreplay.core.errors import UserError
from protoreplay.core.registry import ForeignCode, Registry, foreign_code, from_file, install, short_names


def accept(thing, name):
    """Things of this kind are numbers."""
    if not isinstance(thing, int):
        raise UserError(f"{name} is no number")
    return thing


@pytest.fixture
def numbers(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRIES", {})
    return Registry("number", {"one": 1, "many": "sys:maxsize"}, accept, ("DIGITS",))


@pytest.fixture
def functions(numbers):
    return Registry("function", {}, lambda thing, name: thing)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package with entry points."""
    (tmp_path / "foreign_numbers.py").write_text("SEVEN = 7\nWORD = 'seven'\n")
    info = tmp_path / "foreign_numbers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign-numbers\nVersion: 1.0\n")
    points = {"seven": "SEVEN", "word": "WORD", "lost": "EIGHT"}
    lines = [f"{name} = foreign_numbers:{value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("[protoreplay.numbers]\n" + "\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_the_packages_own_are_imported_when_asked_for(numbers):
    assert numbers.get("one") == 1
    assert numbers.get("many") == sys.maxsize
    assert numbers.names() == list(numbers) == ["one", "many"]
    assert dict(numbers.items()) == {"one": 1, "many": sys.maxsize}
    assert "one" in numbers
    assert "two" not in numbers


def test_what_is_registered_in_a_session_comes_first_until_it_is_taken_back(numbers):
    numbers.register("two", 2)
    numbers.register("one", 11)
    assert (numbers.get("two"), numbers.get("one")) == (2, 11)
    assert numbers.names() == ["one", "many", "two"]
    numbers.unregister("one")
    assert numbers.get("one") == 1
    with pytest.raises(UserError, match="three is no number"):
        numbers.register("three", "3")
    assert "three" not in numbers


def test_entry_points_of_installed_packages(numbers, package):
    assert numbers.names() == ["one", "many", "seven", "word", "lost"]
    assert numbers.get("seven") == 7
    with pytest.raises(UserError, match="word is no number"):
        numbers.get("word")
    with pytest.raises(
        UserError, match="number lost of an installed package cannot be loaded: AttributeError"
    ) as error:
        numbers.get("lost")
    assert "\n" not in str(error.value)


def test_a_name_in_a_file_given_by_a_relative_path(numbers, tmp_path, monkeypatch):
    (tmp_path / "helper.py").write_text("BASE = 40\n")
    (tmp_path / "mine.py").write_text("from helper import BASE\nANSWER = BASE + 2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert numbers.get("mine.py:ANSWER") == 42
    assert numbers.get(f"{tmp_path}/mine.py:ANSWER") == 42
    assert numbers.names() == ["one", "many"]
    sys.modules.pop("helper")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/mine.py").write_text("ANSWER = 43\n")
    monkeypatch.chdir(tmp_path / "other")
    assert numbers.get("mine.py:ANSWER") == 43


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tow", r"unknown number 'tow'; known: many, one, DIGITS, FILE\.py:NAME"),
        ("on", r"unknown number 'on' \(did you mean one\?\); known: "),
        ("none.py:X", r"none\.py cannot be read: No such file or directory"),
        ("bad.py:X", r"bad\.py cannot be loaded: ZeroDivisionError: division by zero \(line 4\)"),
        ("syntax.py:X", r"syntax\.py cannot be loaded: SyntaxError: invalid syntax \(syntax\.py, line 1\)"),
        ("good.py:Answer", r"unknown name 'Answer' in good\.py \(did you mean Answers\?\); known: Answers"),
        ("good.py:Answers", r"good\.py:Answers is no number"),
        ("binary.py:X", r"binary\.py cannot be read: 'utf-8' codec can't decode"),
    ],
)
def test_what_cannot_be_found_or_is_something_else_is_one_line(numbers, tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "bad.py").write_text("def f(x):\n    return 1 / x\n\nX = 1 / 0\n")
    (tmp_path / "syntax.py").write_text("X = = 1\n")
    (tmp_path / "good.py").write_text("import os\n\n\nclass Answers:\n    pass\n")
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    for _ in range(2):  # a file that failed is not half known the second time
        with pytest.raises(UserError, match=message) as error:
            numbers.get(name)
        assert "\n" not in str(error.value)


def test_a_file_is_run_once_a_process(tmp_path):
    path = tmp_path / "once.py"
    path.write_text("RUNS = [1]\n")
    first = from_file(f"{path}:RUNS")
    path.write_text("RUNS = [2]\n")
    assert from_file(f"{path}:RUNS") is first


OTHER_PROCESS = """
import pickle, sys
from protoreplay.core.registry import Registry, install

functions = Registry("function", {}, lambda thing, name: thing)
code, names = pickle.loads(sys.stdin.buffer.read())
install(code)
install(code)
print(*(functions.get(name)() for name in names))
"""


def test_files_and_what_was_registered_are_known_in_another_process_where_the_files_are_not(functions, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def answer():\n    return 42\n")
    offset = 5
    functions.register("here", lambda: offset + 1)
    functions.get(f"{path}:answer")
    path.unlink()
    sent = pickle.dumps((foreign_code(), ["here", f"{path}:answer"]))
    other = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS], input=sent, capture_output=True, check=False, timeout=300
    )
    assert other.stdout.split() == [b"6", b"42"], other.stderr


def test_what_cannot_be_sent_or_loaded_is_one_line(functions):
    functions.register("open", sys.stdout)
    with pytest.raises(UserError, match="open: registered in this session, but cannot be sent to another process"):
        foreign_code()
    with pytest.raises(UserError, match="what was registered in the session cannot be loaded here: ModuleNotFound"):
        install(ForeignCode((), b"cnot_a_module\nthing\n."))


def test_short_names_are_unambiguous():
    names = ["a.py:Net", "b.py:Net", "b.py:FeCAM@tuned", "sgd", "c.py:sgd", "c.py:vpr"]
    short = short_names(names, taken={"sgd", "vpr"})
    assert list(short.values()) == ["a.py:Net", "b.py:Net", "FeCAM@tuned", "sgd", "c.py:sgd", "c.py:vpr"]

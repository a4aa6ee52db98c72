"""Any timm model, by the full name of its weights, as a frozen encoder (`pip install protoreplay[timm]`)."""

import logging
import warnings
from typing import Any

from protoreplay.core.errors import UserError


def timm_graph(name: str) -> tuple[int, str, bytes]:
    """The model of a name such as `resnet18.a1_in1k`: side, fingerprint and graph; timm downloads weights once."""
    try:
        import onnxscript  # noqa: F401  (what PyTorch exports with)
        import timm
    except ImportError as error:
        raise UserError(f"timm does not work here ({error}): pip install 'protoreplay[timm]', or use lite2") from None
    try:
        network = timm.create_model(name, pretrained=True, num_classes=0)
        config = timm.data.resolve_model_data_config(network)
    except Exception as error:  # of an unknown name, of the network, of the hub
        raise UserError(f"timm cannot create '{name}': {' '.join(str(error).split())[:200]}") from None
    return module_graph(network, config)


def module_graph(network: Any, config: dict[str, Any]) -> tuple[int, str, bytes]:
    """A PyTorch module from normalised images to features, with timm's description of its input."""
    import torch

    from protoreplay.encoders import onnx_graph
    from protoreplay.encoders.pretrained import Preprocessing, encoder_fingerprint

    size = int(config["input_size"][-1])
    mean, std = (tuple(255 * float(number) for number in config[key]) for key in ("mean", "std"))
    network = network.eval().requires_grad_(False)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch = torch.export.Dim("batch")
        program = torch.onnx.export(
            network, (torch.zeros(2, 3, size, size),), dynamo=True, dynamic_shapes=({0: batch},), verbose=False
        )
        assert program is not None
    model = onnx_graph.with_ends(program.model_proto, size, mean, std)
    weights = (tensor.contiguous().numpy().data for tensor in network.state_dict().values())
    return size, encoder_fingerprint(Preprocessing(size, mean, std), *weights), model.SerializeToString()

"""The two calls with which a program starts: a stream of tasks, and a method to learn them."""

from typing import Any

from protoreplay import methods, protocols
from protoreplay.methods import Method, Problem
from protoreplay.protocols import Evaluation, Stream


def make_stream(protocol: str, seed: int = 0, evaluation: Evaluation = "test", **settings: Any) -> Stream:
    """The stream of tasks of a protocol; `settings` are those of `protoreplay protocols show PROTOCOL`.

    Examples:
        >>> len(make_stream("split-digits"))
        9
    """
    chosen = protocols.get(protocol)
    return chosen.stream(seed, chosen.settings(settings), evaluation)


def make_method(name: str, stream: Stream, seed: int = 0, device: str = "cpu", **settings: Any) -> Method[Any]:
    """A method that has learned nothing, for the images of `stream`.

    `settings` are those of `protoreplay methods show NAME`; what is not given is as the stream's protocol prescribes.
    """
    config = methods.configure(name, stream.protocol, settings)
    return methods.get(name).build(config, Problem(stream.image_shape, stream.num_classes, seed, device))

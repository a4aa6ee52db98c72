"""One file per method, and the registry that names them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from protoreplay.methods import presets
from protoreplay.methods.base import LedgerItem, Method, Problem, Report, silent
from protoreplay.methods.ewc import EWC
from protoreplay.methods.icarl import ICaRL
from protoreplay.methods.joint import Joint
from protoreplay.methods.l2 import L2
from protoreplay.methods.lwf import LwF
from protoreplay.methods.mas import MAS
from protoreplay.methods.nearest_mean import NearestMean
from protoreplay.methods.online_ewc import OnlineEWC
from protoreplay.methods.replay import Replay
from protoreplay.methods.sgd import SGD
from protoreplay.methods.si import SI
from protoreplay.methods.slda import SLDA
from protoreplay.methods.vpr import VPR
from protoreplay.methods.vpr_paper import VPRPaper
from protoreplay.protocols import Protocol
from protoreplay.settings import Settings, unknown

__all__ = ["REGISTRY", "LedgerItem", "Method", "Problem", "Recipe", "Report", "configure", "get", "silent"]


@dataclass(frozen=True)
class Recipe:
    """A name of the registry: a method with settings of its own.

    Attributes:
        method: the class.
        note: what distinguishes it from other recipes of the class.
        preset: settings that differ from, or pin, the class's defaults.
    """

    method: type[Method[Any]]
    note: str = ""
    preset: Mapping[str, Any] = field(default_factory=dict)

    @property
    def search(self) -> Mapping[str, tuple[Any, ...]]:
        """The values that `protoreplay tune` tries, by setting."""
        return self.method.search

    @property
    def summary(self) -> str:
        """One line."""
        return f"{self.method.summary}{self.note}"

    def settings(self, protocol: Mapping[str, Any], overrides: Mapping[str, Any], name: str) -> Settings:
        """The class's defaults, then the recipe's preset, then what the protocol prescribes, then `overrides`.

        Args:
            protocol: settings for all methods; those this one does not have are passed over.
            overrides: settings for this one; a wrong one is a `UserError`.
            name: for the error.
        """
        fields = self.method.Config.model_fields
        prescribed = {key: value for key, value in protocol.items() if key in fields}
        return self.method.Config.parse({**self.preset, **prescribed, **overrides}, name)

    def build(self, config: Settings, problem: Problem) -> Method[Any]:
        """A method that has learned nothing yet."""
        return self.method(config, problem)


REGISTRY: dict[str, Recipe] = {
    "vpr": Recipe(VPR),
    "vpr-paper": Recipe(VPRPaper, " as in the text of the paper"),
    "sgd": Recipe(SGD),
    "l2": Recipe(L2),
    "ewc": Recipe(EWC),
    "online-ewc": Recipe(OnlineEWC),
    "si": Recipe(SI),
    "mas": Recipe(MAS),
    "lwf": Recipe(LwF),
    "icarl": Recipe(ICaRL),
    "replay": Recipe(Replay),
    "nearest-mean": Recipe(NearestMean, " of raw pixels"),
    "nearest-mean-random": Recipe(NearestMean, " of random convolutional features", {"features": "random"}),
    "nearest-mean-encoder": Recipe(NearestMean, " of the untrained encoder's features", {"features": "encoder"}),
    "slda": Recipe(SLDA),
    "joint": Recipe(Joint),
}


def get(name: str) -> Recipe:
    """The recipe called `name`, whatever its preset, or a `UserError` that lists them."""
    method, _ = presets.split_name(name)
    if method not in REGISTRY:
        raise unknown("method", method, REGISTRY)
    return REGISTRY[method]


def configure(name: str, protocol: Protocol, overrides: Mapping[str, Any]) -> Settings:
    """The settings of `NAME` or `NAME@PRESET` on a protocol, with `overrides`; a wrong one is a `UserError`."""
    preset = presets.settings(*presets.split_name(name), protocol)
    return get(name).settings({**protocol.method_settings, **preset}, overrides, name)

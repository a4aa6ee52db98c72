"""Few-shot continual learning: new classes from a handful of images, task after task, without forgetting."""

import importlib
from typing import TYPE_CHECKING, Any

from protoreplay._version import __version__
from protoreplay.core.silence import keep_silent

if TYPE_CHECKING:
    from protoreplay.cli.session import bench as bench
    from protoreplay.core.errors import UserError as UserError
    from protoreplay.experiments.run import evaluate as evaluate
    from protoreplay.experiments.run import one_thread as one_thread
    from protoreplay.methods.registry import make_method as make_method
    from protoreplay.metrics.accuracy import accuracies as accuracies
    from protoreplay.photos.classifier import Classifier as Classifier
    from protoreplay.prototypes.estimator import PrototypeClassifier as PrototypeClassifier
    from protoreplay.report.result_set import Results as Results
    from protoreplay.streams.protocols import make_stream as make_stream

keep_silent()

# Imported when first used: PyTorch takes seconds to load, and much of the command line does not need it.
_HOMES = {
    "Classifier": "photos.classifier",
    "PrototypeClassifier": "prototypes.estimator",
    "Results": "report.result_set",
    "UserError": "core.errors",
    "accuracies": "metrics.accuracy",
    "bench": "cli.session",
    "evaluate": "experiments.run",
    "make_method": "methods.registry",
    "make_stream": "streams.protocols",
    "one_thread": "experiments.run",
}

__all__ = [
    "Classifier",
    "PrototypeClassifier",
    "Results",
    "UserError",
    "__version__",
    "accuracies",
    "bench",
    "evaluate",
    "make_method",
    "make_stream",
    "one_thread",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'protoreplay' has no attribute '{name}'")
    try:
        return getattr(importlib.import_module(f"protoreplay.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        from protoreplay.core.extras import research_remedy

        if (remedy := research_remedy(error)) is None:
            raise
        raise ModuleNotFoundError(f"protoreplay.{name} {remedy}", name=error.name) from None

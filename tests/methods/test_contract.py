"""The battery on every method of the registry, each check singly."""

import pytest

from protoreplay.methods.registry import METHODS
from protoreplay.testing import CHECKS, Subject

QUICK = {
    "dim": 6,
    "samples": 3,
    "budget": 4,
    "filters": 30,
    "patch": 4,
    "latent": 12,
    "views": 1,
    "expansion": 40,
    "folds": 2,
}
"""Settings of a quick run, for the methods that have them."""


@pytest.mark.parametrize("name", METHODS.names())
@pytest.mark.parametrize("check", CHECKS)
def test_every_method_keeps_the_contract(name, check):
    fields = METHODS.get(name).method.Config.model_fields
    CHECKS[check](Subject.of(name, {key: value for key, value in QUICK.items() if key in fields}))

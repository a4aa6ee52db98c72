"""One name, one meaning: no two modules, classes or functions of the package share a name."""

from collections import defaultdict
from typing import NamedTuple

import pytest

from tests.architecture.source import top_names


class Shared(NamedTuple):
    """Why a name may stand in several places, and the beginnings of the paths of the modules where it may."""

    reason: str
    places: tuple[str, ...]


COMMAND = "the command is called what it does, and typer takes its name from the function"

# A name that stands in more than one module has to be here, with the reason why it means one thing.
SHARED = {
    "load": Shared("each dataset's module has one, which gives its images", ("data/",)),
    "_from_web": Shared("each dataset's module says how it comes from its own site", ("data/",)),
    "_from_npm": Shared("each dataset's module says how it comes from a package", ("data/",)),
    "registry": Shared(
        "the class is in core; each room that has a registry keeps it in a module of this name",
        ("core/registry.py", "encoders/registry.py", "methods/registry.py"),
    ),
    "_entry": Shared(
        "each registry turns what was registered into an entry of its own",
        ("data/catalog.py", "encoders/registry.py", "methods/registry.py", "streams/protocols.py"),
    ),
    "run": Shared(COMMAND, ("cli/", "experiments/run.py")),
    "tune": Shared(COMMAND, ("cli/", "experiments/tune.py")),
    "export": Shared(COMMAND, ("cli/", "photos/export.py")),
}


def places() -> dict[str, list[str]]:
    found = defaultdict(list)
    for name, module in top_names():
        found[name].append(module)
    return {name: where for name, where in found.items() if len(where) > 1}


def test_no_two_things_have_one_name():
    shared = {
        name: where
        for name, where in places().items()
        if name not in SHARED or not all(one.startswith(SHARED[name].places) for one in where)
    }
    assert shared == {}, "rename one of each, or say in SHARED why they mean one thing"


@pytest.mark.parametrize("name", SHARED)
def test_every_exception_is_still_needed(name):
    assert name in places(), f"{name} stands in one place only: take it out of SHARED"

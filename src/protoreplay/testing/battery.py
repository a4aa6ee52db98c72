"""All checks on one method."""

from collections.abc import Mapping
from typing import Any

from protoreplay.encoders.registry import ImageShape
from protoreplay.methods.base import Method
from protoreplay.methods.registry import MethodEntry
from protoreplay.testing.checks import CHECKS
from protoreplay.testing.subject import Subject


def check_method(
    method: type[Method[Any]] | MethodEntry | str,
    settings: Mapping[str, Any] | None = None,
    *,
    image_shape: ImageShape = (1, 8, 8),
    features: bool = False,
) -> None:
    """Check that a method keeps the contract of `Method`, on a small stream of toy images.

    An `AssertionError` names the check that failed and what was wrong. What a method need not do, its class declares:
    one whose result does not depend on the seed says `deterministic = True`, one whose features stay the same from
    the first task on says `frozen = True`.

    Args:
        method: a class of `Method`, an entry of the registry, or a name, registered or `FILE.py:NAME`.
        settings: of the method. By default its own, but for methods that train a network, which take a small one and
            few epochs: give settings with which the method learns a task of four images in less than a second.
        image_shape: channels, height, width of the images, for methods that need larger ones.
        features: check it as it is with `--encoder`: it is given the pixels of the images as features.

    Raises:
        AssertionError: the method breaks the contract.
        UserError: there is no such method, or it does not have such settings.
    """
    subject = Subject.of(method, settings, image_shape, features)
    subject.entry.settings({}, subject.settings, subject.name)
    for name, check in CHECKS.items():
        try:
            check(subject)
        except AssertionError as error:
            raise AssertionError(f"{subject.name} fails {name}: {error}") from None
        except Exception as error:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            raise AssertionError(f"{subject.name} fails {name}: it raises {what}") from error

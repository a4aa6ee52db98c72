"""Fixtures of the rooms whose commands are tested here."""

from tests.data.conftest import web  # noqa: F401
from tests.photos.conftest import taught, tiny  # noqa: F401

"""Fixtures of the reports."""

from tests.report.conftest import runs  # noqa: F401

"""The battery that every method passes, for methods of one's own too.

Examples:
    >>> from protoreplay.testing import check_method
    >>> check_method("nearest-mean")
"""

from protoreplay.testing.battery import check_method
from protoreplay.testing.checks import CHECKS
from protoreplay.testing.subject import Subject
from protoreplay.testing.toy import toy_task

__all__ = ["CHECKS", "Subject", "check_method", "toy_task"]

"""Wrong usage: what argparse cannot say by itself."""

from __future__ import annotations

import argparse
from collections.abc import Callable


class UsageError(Exception):
    """Options that do not go together: the usage and one line on stderr, exit code 2."""


def at_least(low: int) -> Callable[[str], int]:
    """An argparse type: a whole number not below ``low``."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {low} or more")
        return value

    return number

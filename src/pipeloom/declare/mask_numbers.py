"""Numbers that ops of bits take: those of an i32 that f32, which constants are, has exactly."""

from __future__ import annotations

from pipeloom.errors import ConfigError
from pipeloom.program.whole_numbers import is_whole_constant

_LOW = 0xFFFF
"""The bits of the lower of two parts."""


def mask_number(name: str, sign: str, number: int) -> int:
    """A number that stands for the same bits in a kernel; raises for any other.

    Args:
        name: The value that it is combined with.
        sign: The operator.
        number: The number.
    """
    if is_whole_constant(number):
        return number
    same = (number + 2**31) % 2**32 - 2**31
    if same != number:
        what, hint = "is no i32", f"the i32 of its lowest 32 bits is {same}"
    else:
        high, low = number - (number & _LOW), number & _LOW
        parts = f"({name} & {high}) | ({name} & {low})"
        parts = parts if sign == "&" else f"{name} {sign} {high} {sign} {low}"
        what, hint = "has more bits than an f32", f"take two parts: {parts}"
    raise ConfigError(f"{name} {sign} {number}: the number {what}", hint=hint, field=name)

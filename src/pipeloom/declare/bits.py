"""Bits of whole numbers and truth values: what ``& | ^ ~ << >>`` of values are made of."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import I32
from pipeloom.program.whole_numbers import is_whole_constant

if TYPE_CHECKING:
    from pipeloom.declare.tensor import Tensor

_LOW = 0xFFFF
"""The bits of the lower of two parts."""


def is_whole(value: Tensor) -> bool:
    """Whether it has bits: whole numbers, which truth values are not."""
    return value.type.dtype.is_integer and not value.type.dtype.is_bool


def truth(sign: str, value: object) -> Tensor:
    """A truth value, as it is; raises for any other."""
    found = getattr(value, "type", None)
    if found is not None and found.dtype.is_bool:
        return value  # type: ignore[return-value]
    name = repr(value) if found is None else str(value.name)  # type: ignore[attr-defined]
    raise ConfigError(
        f"{sign} takes truth values or whole numbers, and {name} is neither",
        hint="compare it first, (x > 0) & (y > 0), or convert it: x.to(pl.I32) & 15",
        field=name,
    )


def places(value: Tensor, sign: str, by: object) -> int:
    """How far bits are shifted."""
    if is_whole(value) and isinstance(by, Integral) and 0 <= int(by) < 32:
        return int(by)
    raise value._no(
        f"{sign} {by!r}", "whole numbers are shifted, x.to(pl.I32), by a number from 0 to 31"
    )


def combined(value: Tensor, op: str, sign: str, other: object) -> Tensor:
    """An op on the bits of two values, or of a value and a number, which is that of an i32 or u32.

    A number with more bits than f32 has, which constants are, is taken in two parts.
    """
    apply = value._loop.apply
    if isinstance(other, Integral) and not isinstance(other, bool):
        number = (int(other) + 2**31) % 2**32 - 2**31
        if number != other and not 0 <= int(other) < 2**32:
            raise ConfigError(
                f"{value.name} {sign} {other}: the number is no i32",
                hint=f"the i32 of its lowest 32 bits is {number}",
                field=value.name,
            )
        if is_whole_constant(number):
            return apply(op, _as_i32(value), number, dtype=I32)
        high, low = number & ~_LOW, number & _LOW
        if op == "bit_and":
            return combined(combined(value, op, sign, high), "bit_or", "|", value & low)
        return combined(combined(value, op, sign, high), op, sign, low)
    if hasattr(other, "staged") and is_whole(other):  # type: ignore[arg-type]
        return apply(op, _as_i32(value), _as_i32(other), dtype=I32)  # type: ignore[arg-type]
    raise value._no(f"{sign} {other!r}", "bits are those of whole numbers: x.to(pl.I32)")


def _as_i32(value: Tensor) -> Tensor:
    return value if value.type.dtype == I32 else value.to(I32)

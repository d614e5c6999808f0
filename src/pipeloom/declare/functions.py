"""Functions of values: what a declaration calls, op by op or composed of ops (``composed``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeloom.declare import composed
from pipeloom.declare.tensor import Tensor
from pipeloom.errors import ConfigError

if TYPE_CHECKING:
    from pipeloom.declare.loop import Loop


def exp2(x: Tensor) -> Tensor:
    """2 to the power of each element.

    Args:
        x: Any value.
    """
    return loop_of("exp2", "x", x).apply("exp2", x)


def maximum(a: Tensor | float, b: Tensor | float) -> Tensor:
    """The larger of two, element by element.

    Args:
        a: A value, or a number where the other is none.
        b: A value or a number.
    """
    return loop_of("maximum", "a", a, b).apply("max", a, b)


def minimum(a: Tensor | float, b: Tensor | float) -> Tensor:
    """The smaller of two, element by element.

    Args:
        a: A value, or a number where the other is none.
        b: A value or a number.
    """
    return loop_of("minimum", "a", a, b).apply("min", a, b)


def log2(x: Tensor) -> Tensor:
    """The logarithm of each element to base 2.

    Args:
        x: Positive numbers.
    """
    return loop_of("log2", "x", x).apply("log2", x)


def rcp(x: Tensor) -> Tensor:
    """1 over each element, in one instruction.

    Of what is above 2^126 it is as of infinity, and of denormals as of zero. ``/`` divides by any
    number.

    Args:
        x: Any value.
    """
    return loop_of("rcp", "x", x).apply("rcp", x)


def rsqrt(x: Tensor) -> Tensor:
    """1 over the square root of each element.

    Args:
        x: Positive numbers.
    """
    return loop_of("rsqrt", "x", x).apply("rsqrt", x)


def exp(x: Tensor) -> Tensor:
    """e to the power of each element.

    Args:
        x: Any value.
    """
    loop_of("exp", "x", x)
    return composed.exp(x)


def expm1(x: Tensor) -> Tensor:
    """exp(x) - 1, which near 0 loses no digits.

    Args:
        x: Any value.
    """
    loop_of("expm1", "x", x)
    return composed.expm1(x)


def log(x: Tensor) -> Tensor:
    """The natural logarithm of each element.

    Args:
        x: Positive numbers.
    """
    loop_of("log", "x", x)
    return composed.log(x)


def log1p(x: Tensor) -> Tensor:
    """log(1 + x), which near 0 loses no digits.

    Args:
        x: Numbers above -1.
    """
    loop_of("log1p", "x", x)
    return composed.log1p(x)


def sqrt(x: Tensor) -> Tensor:
    """The square root of each element.

    Args:
        x: Positive numbers, or 0.
    """
    return loop_of("sqrt", "x", x).apply("sqrt", x)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)): from 0 to 1, without overflow.

    Args:
        x: Any value.
    """
    loop_of("sigmoid", "x", x)
    return composed.sigmoid(x)


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent of each element, within 2^-22 of the true one.

    Args:
        x: Any value.
    """
    loop_of("tanh", "x", x)
    return composed.tanh(x)


def erf(x: Tensor) -> Tensor:
    """The error function of each element, within 2^-20 of the true one: for GELU.

    Args:
        x: Any value.
    """
    loop_of("erf", "x", x)
    return composed.erf(x)


def sin(x: Tensor) -> Tensor:
    """The sine of each element, of an angle that is rounded to 2^-22 of itself.

    Args:
        x: Any finite value, in radians.
    """
    return loop_of("sin", "x", x).apply("sin", x)


def cos(x: Tensor) -> Tensor:
    """The cosine of each element, of an angle that is rounded to 2^-22 of itself.

    Args:
        x: Any finite value, in radians.
    """
    return loop_of("cos", "x", x).apply("cos", x)


def clamp(x: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
    """Each element, but at least ``low`` and at most ``high``.

    Args:
        x: Any value.
        low: The least, a value or a number.
        high: The most, a value or a number.
    """
    loop_of("clamp", "x", x)
    return composed.clamp(x, low, high)


def abs(x: Tensor) -> Tensor:
    """Each element without its sign.

    Args:
        x: Any value.
    """
    loop_of("abs", "x", x)
    return x.__abs__()


def sign(x: Tensor) -> Tensor:
    """1 of what is above 0, -1 of what is below, and 0 of 0.

    Args:
        x: Any value.
    """
    loop_of("sign", "x", x)
    return composed.sign(x)


def round(x: Tensor) -> Tensor:
    """The nearest whole number, of two the even one.

    Args:
        x: Any value.
    """
    return loop_of("round", "x", x).apply("round", x)


def floor(x: Tensor) -> Tensor:
    """The next whole number that is not above.

    Args:
        x: Any value.
    """
    return loop_of("floor", "x", x).apply("floor", x)


def ceil(x: Tensor) -> Tensor:
    """The next whole number that is not below.

    Args:
        x: Any value.
    """
    return loop_of("ceil", "x", x).apply("ceil", x)


def trunc(x: Tensor) -> Tensor:
    """The next whole number towards 0.

    Args:
        x: Any value.
    """
    return loop_of("trunc", "x", x).apply("trunc", x)


def keep(x: Tensor, left: Tensor, least: Tensor | float) -> Tensor:
    """``x`` where ``left`` is at least so much, elsewhere minus infinity: a mask.

    Args:
        x: The value to mask.
        left: What is left along a dimension: ``loop.left``.
        least: How much must be left; 1 masks what lies past the end.
    """
    return loop_of("keep", "x", x).apply("keep", x, left, least)


def within(x: Tensor | float, left: Tensor, least: Tensor | float = 1) -> Tensor:
    """``x`` where something is left, elsewhere 0: what sums do not see.

    Args:
        x: The value to mask, or a number.
        left: What is left along a dimension: ``loop.left``.
        least: How much must be left; 1 masks what lies past the end.
    """
    loop = loop_of("within", "left", left)
    if isinstance(least, Tensor) or least != 1:
        return loop.apply("clear", x, left, least)
    return loop.apply("within", x, left)


def where(condition: Tensor, a: Tensor | float, b: Tensor | float) -> Tensor:
    """``a`` where the condition holds, else ``b``.

    Args:
        condition: A truth value: what a comparison gives.
        a: A value or a number.
        b: A value or a number.
    """
    return loop_of("where", "condition", condition).apply("select", condition, a, b)


def fma(a: Tensor | float, b: Tensor | float, c: Tensor | float) -> Tensor:
    """``a * b + c``, rounded once; two of them may be numbers.

    Args:
        a: A factor.
        b: The other factor.
        c: What is added.
    """
    return loop_of("fma", "a", a, b, c).apply("fma", a, b, c)


def loop_of(function: str, name: str, *values: object) -> Loop:
    """The loop of the first argument that is a value of one; numbers are none."""
    for value in values:
        if isinstance(value, Tensor):
            return value._loop
    raise ConfigError(
        f"{function} takes a value of a loop as {name}, not {values[0]!r}",
        hint="pass what loop.stream, loop.carry or an operation on them gave; of numbers alone "
        "NumPy or math computes it",
        field=name,
    )

"""Functions that hardware has in another form, made of the ops that it has.

Those to base e are composed of those to base 2: ``exp(x)`` is ``exp2(x * log2(e))``, two
instructions, of which the first is shared where ``x`` was scaled anyway. Values are taken as they
are; ``functions`` checks what users pass, and NumPy's names lead here, too.
"""

from __future__ import annotations

from math import log as _log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeloom.declare.tensor import Tensor

LOG2_E = 1 / _log(2)
"""The logarithm of e to base 2."""
LN2 = _log(2)
"""The natural logarithm of 2."""
_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_ERF_STEP = 0.3275911
"""Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: within 1.5e-7."""
_NEAR_ZERO = 0.35
"""Below, exp(x) - 1 loses digits, and seven terms of its series do not."""
_WHOLE = 2.0**24
"""From here on 1 + x is x."""


def exp(x: Tensor) -> Tensor:
    """e to the power of x."""
    return x._loop.apply("exp2", x * LOG2_E)


def expm1(x: Tensor) -> Tensor:
    """exp(x) - 1, near 0 by its series."""
    series = 1.0 + x * (1 / 7)
    for term in range(6, 1, -1):
        series = 1.0 + x * (1 / term) * series
    return x._loop.apply("select", abs(x) < _NEAR_ZERO, x * series, exp(x) - 1.0)


def log(x: Tensor) -> Tensor:
    """The natural logarithm."""
    return x._loop.apply("log2", x) * LN2


def log1p(x: Tensor) -> Tensor:
    """The logarithm of 1 + x, and of what that rounds away its first term."""
    apply, whole = x._loop.apply, 1.0 + x
    lost = (x - (whole - 1.0)) * apply("rcp", whole)
    return log(whole) + apply("select", x < _WHOLE, lost, 0.0)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), without overflow."""
    apply = x._loop.apply
    return apply("rcp", apply("exp2", x * -LOG2_E) + 1.0)


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent, by one exponential."""
    apply = x._loop.apply
    return 1.0 - 2.0 * apply("rcp", apply("exp2", x * (2 * LOG2_E)) + 1.0)


def erf(x: Tensor) -> Tensor:
    """The error function, by a polynomial and one exponential."""
    apply, size = x._loop.apply, abs(x)
    step = apply("rcp", size * _ERF_STEP + 1.0)
    series = step * _ERF[-1]
    for term in reversed(_ERF[:-1]):
        series = step * (term + series)
    rest = 1.0 - series * exp(-(x * x))
    return apply("select", x < 0.0, -rest, rest)


def sign(x: Tensor) -> Tensor:
    """1, -1, or what is neither above nor below 0."""
    apply = x._loop.apply
    return apply("select", x > 0.0, 1.0, apply("select", x < 0.0, -1.0, x))


def clamp(x: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
    """At least ``low``, at most ``high``."""
    apply = x._loop.apply
    return apply("min", apply("max", x, low), high)

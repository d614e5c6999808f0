"""Functions that hardware has in another form, made of the ops that it has.

Those to base e are composed of those to base 2: ``exp(x)`` is ``exp2(x * log2(e))``, two
instructions, of which the first is shared where ``x`` was scaled anyway. Values are taken as they
are; ``functions`` checks what users pass, and NumPy's names lead here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, log2, pi
from math import log as _log
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pipeloom.errors import ConfigError

if TYPE_CHECKING:
    from pipeloom.declare.loop import Loop
    from pipeloom.declare.tensor import Tensor

LOG2_E = 1 / _log(2)
"""The logarithm of e to base 2."""
LN2 = _log(2)
"""The natural logarithm of 2."""
LOG10_2 = LN2 / _log(10)
"""The logarithm of 2 to base 10."""
MOST_POWER = 64
ROOTS: Mapping[float, str] = MappingProxyType({0.5: "sqrt", -0.5: "rsqrt"})
"""Ops that are powers."""
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
    # Of -1 nothing is lost, and minus infinity is no number more by 0 over 0.
    lost = (x - (whole - 1.0)) * apply("rcp", apply("max", whole, 1 / _WHOLE))
    return log(whole) + apply("select", x < _WHOLE, lost, 0.0)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), without overflow."""
    apply = x._loop.apply
    return apply("rcp", apply("exp2", x * -LOG2_E) + 1.0)


def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    return x * sigmoid(x)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x / 2 * (1 + erf(x / sqrt(2))), PyTorch's usual form; its other form is an activation."""
    if not isinstance(approximate, str) or approximate != "none":
        raise ConfigError(
            f"gelu of {x.name} with approximate={approximate!r}",
            hint="of the tangent: x * (1.5957691216 * (x + 0.044715 * x * x * x)).sigmoid()",
            field="approximate",
        )
    return x * 0.5 * (erf(x * 0.5**0.5) + 1.0)


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


def tan(x: Tensor) -> Tensor:
    """Sine over cosine."""
    return x._loop.apply("sin", x) / x._loop.apply("cos", x)


def sinh(x: Tensor) -> Tensor:
    """Half of exp(x) - exp(-x), near 0 by the series of exp(x) - 1."""
    apply, scaled = x._loop.apply, x * LOG2_E
    far = apply("exp2", scaled - 1.0) - apply("exp2", -1.0 - scaled)
    return apply("select", abs(x) < _NEAR_ZERO, (expm1(x) - expm1(-x)) * 0.5, far)


def cosh(x: Tensor) -> Tensor:
    """Half of exp(x) + exp(-x)."""
    apply, scaled = x._loop.apply, x * LOG2_E
    return apply("exp2", scaled - 1.0) + apply("exp2", -1.0 - scaled)


def arctanh(x: Tensor) -> Tensor:
    """What the hyperbolic tangent makes x of."""
    return (log1p(x) - log1p(-x)) * 0.5


def log10(x: Tensor) -> Tensor:
    """The logarithm to base 10."""
    return x._loop.apply("log2", x) * LOG10_2


def cbrt(x: Tensor) -> Tensor:
    """The cube root, of negative numbers too."""
    root = x._loop.apply("exp2", x._loop.apply("log2", abs(x)) * (1 / 3))
    return x._loop.apply("select", x < 0.0, -root, root)


def isnan(x: Tensor) -> Tensor:
    """Whether it is no number: such a one is not even itself."""
    return ~(x == x)


def isinf(x: Tensor) -> Tensor:
    """Whether it is infinity, of either sign."""
    return abs(x) == inf


def isfinite(x: Tensor) -> Tensor:
    """Whether it is a number, and no infinity."""
    return abs(x) < inf


def nan_to_num(
    x: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Numbers in place of those that are none, and of infinities: the largest there are."""
    apply, most = x._loop.apply, x.type.dtype.largest
    high = apply("select", x == inf, most if posinf is None else posinf, x)
    low = apply("select", x == -inf, -most if neginf is None else neginf, high)
    return apply("select", isnan(x), nan, low)


def heaviside(x: Tensor, at_zero: Any) -> Tensor:
    """0 below 0, 1 above, and between as told."""
    apply = x._loop.apply
    return apply("select", x < 0.0, 0.0, apply("select", x > 0.0, 1.0, x + at_zero))


def hypot(a: Any, b: Any) -> Tensor:
    """The root of the sum of two squares, which themselves may be too large for f32."""
    apply, first, second = _loop(a, b).apply, abs(a), abs(b)
    large, small = apply("max", first, second), apply("min", first, second)
    ratio = apply("select", large == small, 1.0, small / large)
    length, either = large * apply("sqrt", ratio * ratio + 1.0), first + second
    no_number = apply("select", large == inf, large, either)
    return apply("select", apply("eq", either, either), length, no_number)


def logaddexp(a: Any, b: Any) -> Tensor:
    """The logarithm of exp(a) + exp(b), without overflow."""
    loop = _loop(a, b)
    apart = loop.apply("select", loop.apply("eq", a, b), 0.0, abs(a - b))
    return loop.apply("max", a, b) + log1p(exp(-apart))


def log_sum_exp(x: Tensor, *dims: Any, **options: Any) -> Tensor:
    """The logarithm of the sum of exponentials along dimensions, without overflow."""
    most = x.max(*dims, **options)
    most = x._loop.apply("select", isinf(most), 0.0, most)
    return most + log(exp(x - most).sum(*dims, **options))


def norm(x: Tensor, kind: Any = None, *dims: Any, **options: Any) -> Tensor:
    """The root of the sum of squares along dimensions."""
    if not (kind is None or (isinstance(kind, str | Real) and kind in (2, "fro"))):
        raise ConfigError(
            f"a norm of {x.name} of order {kind!r}",
            hint="norms are roots of sums of squares, np.linalg.norm(x, axis='n'); others are "
            "abs(x).sum('n'), abs(x).max('n')",
            field="ord",
        )
    root: Tensor = x.sum_squares(*dims, **options) ** 0.5
    return root


def remainder(a: Any, b: Any) -> Tensor:
    """What is left of a division that rounds down: exact for whole numbers below 2^24."""
    apply = _loop(a, b).apply
    if not _is_positive(b):
        _, over, low, high = _divided(a, b)
        return apply("select", low, over + b, apply("select", high, over - b, over))
    by = float(b)
    rest: Tensor = a - apply("floor", a * (1 / by)) * by
    if by == 2.0 ** round(log2(by)):
        return rest
    # The quotient is rounded, and may be the next whole number.
    rest = apply("select", rest < 0, rest + by, rest)
    return apply("select", rest >= by, rest - by, rest)


def floor_divide(a: Any, b: Any) -> Tensor:
    """A division that rounds down: exact for whole numbers below 2^24."""
    apply = _loop(a, b).apply
    if not _is_positive(b):
        whole, _, low, high = _divided(a, b)
        return apply("select", low, whole - 1.0, apply("select", high, whole + 1.0, whole))
    by = float(b)
    if by == 2.0 ** round(log2(by)):
        return apply("floor", a * (1 / by))
    return apply("floor", (a - remainder(a, b)) * (1 / by) + 0.5)


def _is_positive(number: Any) -> bool:
    return isinstance(number, Real) and 0 < float(number) < inf


def _divided(a: Any, b: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A quotient, which was rounded and may be the next whole number, what it leaves, and whether
    it is too large or too small."""
    whole = _loop(a, b).apply("floor", a / b)
    rest = a - whole * b
    return whole, rest, rest * b < 0.0, abs(rest) >= abs(b)


def power(x: Tensor, exponent: Any) -> Tensor:
    """By products where it is a whole number, with a root where it has a half; else by logarithms,
    of what is not negative."""
    number = isinstance(exponent, Real) and not isinstance(exponent, bool)
    if not number or not abs(float(exponent)) < inf:
        raise ConfigError(
            f"{x.name} ** {exponent!r}: a power is a number",
            hint="of positive numbers any other power is pl.exp2(pl.log2(x) * p)",
            field="pow",
        )
    most = float(exponent)
    if most in ROOTS:
        return x._loop.apply(ROOTS[most], x)
    if abs(most) <= MOST_POWER and most % 1 in (0, 0.5) and most:
        found = _repeated(x, int(abs(most)))
        found = found * x**0.5 if most % 1 else found
        return found if most > 0 else 1.0 / found
    if most % 1:
        return x._loop.apply("exp2", x._loop.apply("log2", x) * most)
    raise ConfigError(
        f"{x.name} ** {exponent!r}: a whole power is from 1 to {MOST_POWER}, or as much below 0",
        hint="of positive numbers any other power is pl.exp2(pl.log2(x) * p)",
        field="pow",
    )


def _repeated(x: Tensor, times: int) -> Tensor:
    """The product of x with itself, in few steps."""
    if times == 1:
        return x
    half = _repeated(x, times // 2)
    return half * half if times % 2 == 0 else half * half * x


def degrees(x: Tensor) -> Tensor:
    """Radians as degrees."""
    return x * (180 / pi)


def radians(x: Tensor) -> Tensor:
    """Degrees as radians."""
    return x * (pi / 180)


def _loop(*values: Any) -> Loop:
    """The loop of the first that is a value of one; raises for what is no value and no number."""
    found: Loop = next(value._loop for value in values if hasattr(value, "_loop"))
    for value in values:
        if not isinstance(value, Real):
            found._operand(value)
    return found

"""Values of a declaration, as users handle them: arithmetic on names, nothing computed yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf, log, log2
from numbers import Integral, Real
from operator import and_, invert, or_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import BOOL, DType
from pipeloom.program.tiles import TileType

if TYPE_CHECKING:
    from pipeloom.declare.loop import Loop


class Tensor:
    """A value of a loop, made by the loop's methods and by arithmetic.

    Dimensions are matched by name, so broadcasting and transposes are free. ``a @ b`` sums over the
    one dimension that both have. ``c += x`` on a carried value states its next value; from then on
    ``c`` means that.

    Args:
        loop: The loop it belongs to.
        name: The value's name in the loop.
        carry: The carried value whose current state it is; None for any other.
    """

    __slots__ = ("_key", "_loop", "carry")

    def __init__(self, loop: Loop, name: str, carry: str | None = None) -> None:
        self._loop = loop
        self._key = loop.key_of(name)
        self.carry = carry

    @property
    def name(self) -> str:
        """What it is called now, whoever gave it another name."""
        return self._loop.name_of(self._key)

    @property
    def type(self) -> TileType:
        """Its dimensions, sizes and element type."""
        return self._loop.type_of(self.name)

    def staged(self) -> Tensor:
        """The same value, through LDS: the workgroup loads it together and its waves share it."""
        self._loop.stage(self.name)
        return self

    @property
    def T(self) -> Tensor:
        """The same value: dimensions go by name, so a transpose has nothing to do."""
        return self

    def named(self, name: str) -> Tensor:
        """The same value under a name of yours, which pages and messages then show.

        Args:
            name: The new name, unique in the loop.
        """
        return Tensor(self._loop, self._loop.rename(self.name, name), self.carry)

    def to(self, dtype: DType | str) -> Tensor:
        """Converted, rounding to nearest even.

        Args:
            dtype: The element type, or its name.
        """
        return self._loop.apply("convert", self, dtype=dtype)

    def sum(self, *dims: str) -> Tensor:
        """Summed over dimensions.

        Args:
            *dims: The dimensions to sum over.
        """
        return self._loop.apply("sum", self, over=dims)

    def sum_squares(self, *dims: str) -> Tensor:
        """The squares, summed over dimensions.

        Args:
            *dims: The dimensions to sum over.
        """
        return self._loop.apply("sum_squares", self, over=dims)

    def max(self, *dims: str) -> Tensor:
        """The largest along dimensions.

        Args:
            *dims: The dimensions that disappear.
        """
        return self._loop.apply("amax", self, over=dims)

    def min(self, *dims: str) -> Tensor:
        """The smallest along dimensions.

        Args:
            *dims: The dimensions that disappear.
        """
        return self._loop.apply("amin", self, over=dims)

    def any(self, *dims: str) -> Tensor:
        """Whether any is true along dimensions; along all of them by default.

        Args:
            *dims: The dimensions that disappear.
        """
        return self._loop.apply("any", self, over=dims or self.type.dims)

    def all(self, *dims: str) -> Tensor:
        """Whether all are true along dimensions; along all of them by default.

        Args:
            *dims: The dimensions that disappear.
        """
        return ~(~self).any(*dims)

    def mean(self, *dims: str) -> Tensor:
        """The sum over dimensions, divided by how many elements the array has along them.

        Args:
            *dims: The dimensions that disappear; the loop's own is none of them.
        """
        return self._loop.mean(self, dims)

    def becomes(self, value: Tensor | float) -> Tensor:
        """State the next value of a carried one; returns that.

        Args:
            value: What it is in the next iteration.
        """
        return self._loop.update(self, value)

    def __matmul__(self, other: Tensor) -> Tensor:
        if not isinstance(other, Tensor):
            raise ConfigError(
                f"{self.name} @ {other!r}: a matrix product takes two values of a loop",
                hint=f"multiply by a number with *: {self.name} * 2.0",
                field="matmul",
            )
        shared = tuple(dim for dim in self.type.dims if dim in other.type.dims)
        if len(shared) != 1:
            raise ConfigError(
                f"{self.name} @ {other.name} sums over the one dimension that both have, and "
                f"{self.type} and {other.type} share {', '.join(shared) or 'none'}",
                hint="name the dimension alike in both"
                if not shared
                else f'say which: loop.apply("matmul", a, b, over=("{shared[-1]}",))',
                field="matmul",
            )
        if len(self.type.dims) == 1 or len(other.type.dims) == 1:  # a vector: no matrix unit
            return (self * other).sum(*shared)
        return self._loop.apply("matmul", self, other, over=shared)

    def __iadd__(self, other: Tensor | float) -> Tensor:
        if self.carry is None:
            return self + other
        return self._loop.accumulate(self, other)

    def __add__(self, other: Tensor | float) -> Tensor:
        return self._loop.apply("add", self, other)

    def __sub__(self, other: Tensor | float) -> Tensor:
        return self._loop.apply("sub", self, other)

    def __mul__(self, other: Tensor | float) -> Tensor:
        return self._loop.apply("mul", self, other)

    def __truediv__(self, other: Tensor | float) -> Tensor:
        return self._loop.apply("div", self, other)

    def __radd__(self, other: float) -> Tensor:
        return self._loop.apply("add", other, self)

    def __rsub__(self, other: float) -> Tensor:
        return self._loop.apply("sub", other, self)

    def __rmul__(self, other: float) -> Tensor:
        return self._loop.apply("mul", other, self)

    def __rtruediv__(self, other: float) -> Tensor:
        return self._loop.apply("div", other, self)

    def __neg__(self) -> Tensor:
        return self._loop.apply("neg", self)

    def __gt__(self, other: Tensor | float) -> Tensor:
        return self._loop.apply("gt", self, other)

    def __ge__(self, other: Tensor | float) -> Tensor:
        return self._loop.apply("ge", self, other)

    def __lt__(self, other: Tensor | float) -> Tensor:
        return self._loop.apply("lt", self, other)

    def __le__(self, other: Tensor | float) -> Tensor:
        return self._loop.apply("le", self, other)

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return self._loop.apply("eq", self, self._checked("==", other))

    __hash__ = object.__hash__

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return self._loop.apply("eq", self == other, 0.0)

    def __and__(self, other: Tensor) -> Tensor:
        return self._loop.apply("mul", self._truth("&"), _truth("&", other), dtype=BOOL)

    def __or__(self, other: Tensor) -> Tensor:
        return self._loop.apply("max", self._truth("|"), _truth("|", other), dtype=BOOL)

    def __xor__(self, other: Tensor) -> Tensor:
        return self._truth("^") != _truth("^", other)

    def __rand__(self, other: object) -> Tensor:
        return _truth("&", other) & self

    def __ror__(self, other: object) -> Tensor:
        return _truth("|", other) | self

    def __rxor__(self, other: object) -> Tensor:
        return _truth("^", other) ^ self

    def __invert__(self) -> Tensor:
        return self._loop.apply("eq", self._truth("~"), 0.0)

    def __abs__(self) -> Tensor:
        return self._loop.apply("max", self, -self)

    def __pow__(self, power: float) -> Tensor:
        if power in ROOTS and not isinstance(power, bool):
            return self._loop.apply(ROOTS[power], self)
        whole = isinstance(power, Integral) and not isinstance(power, bool)
        if not whole or not 1 <= abs(int(power)) <= MOST_POWER:
            raise ConfigError(
                f"{self.name} ** {power!r}: a power is a whole number up to {MOST_POWER}, or a "
                "square root",
                hint="x ** 0.5 and x ** -0.5 are roots; of positive numbers any other power is "
                "exp2(log2(x) * p)",
                field="pow",
            )
        if power < 0:
            return 1.0 / self ** -int(power)
        half = self ** (int(power) // 2) if power > 1 else self
        if power == 1:
            return self
        return half * half if power % 2 == 0 else half * half * self

    def __rpow__(self, base: object) -> Tensor:
        raise self._no(f"{base!r} ** x", "exp2(x) is 2 ** x; of another base, exp2(x * log2(base))")

    def __array_ufunc__(self, function: Any, method: str, *given: Any, **options: Any) -> Tensor:
        """NumPy's functions of values: those that the vocabulary has, by its name for them."""
        op, composed = _UFUNCS.get(function.__name__), _COMPOSED.get(function.__name__)
        if (op is None and composed is None) or method != "__call__" or options:
            raise ConfigError(
                f"NumPy's {function.__name__} is no function of values of a loop",
                hint=f"there are {', '.join((*_UFUNCS, *_COMPOSED))}",
                field=function.__name__,
            )
        # NumPy hands its own numbers over as arrays without dimensions.
        numbers = (v.item() if isinstance(v, np.ndarray) and not v.ndim else v for v in given)
        return composed(*numbers) if composed is not None else self._loop.apply(str(op), *numbers)

    def _checked(self, sign: str, other: object) -> Tensor | float:
        if isinstance(other, Tensor | Real):
            return other  # type: ignore[return-value]
        raise ConfigError(
            f"{self.name} {sign} {other!r}: a value is compared with a value or a number",
            hint="leave it out, or declare what it should be compared with",
            field=self.name,
        )

    def _truth(self, sign: str) -> Tensor:
        return _truth(sign, self)

    def __bool__(self) -> bool:
        raise ConfigError(
            f"{self.name} has no truth value: it stands for many numbers that are not known yet",
            hint="use where(condition, a, b), loop.when(condition), & and | instead of if, and, or",
            field=self.name,
        )

    def __getitem__(self, index: object) -> Tensor:
        raise ConfigError(
            f"{self.name}[{index!r}]: a value of a loop has no elements to pick",
            hint="declare a stream or resident of the part that is needed",
            field=self.name,
        )

    def __iter__(self) -> Iterator[Tensor]:
        raise self._no("iterate over it", "dimensions go by name: x.sum('k'), x.max('k')")

    def __len__(self) -> int:
        raise self._no("len()", "x.type.sizes has the size of every dimension")

    def __float__(self) -> float:
        raise self._no("float()", "loop.evaluate computes the numbers")

    def __int__(self) -> int:
        raise self._no("int()", "loop.evaluate computes the numbers")

    def __mod__(self, other: float) -> Tensor:
        """What is left of a division by a positive number: exact for whole numbers below 2^24."""
        by = self._divisor("%", other)
        rest = self - self._loop.apply("floor", self * (1 / by)) * by
        if by == 2.0 ** round(log2(by)):
            return rest
        # The quotient is rounded, and may be the next whole number.
        select = self._loop.apply
        rest = select("select", rest < 0, rest + by, rest)
        return select("select", rest >= by, rest - by, rest)

    def __floordiv__(self, other: float) -> Tensor:
        by = self._divisor("//", other)
        if by == 2.0 ** round(log2(by)):
            return self._loop.apply("floor", self * (1 / by))
        return self._loop.apply("floor", (self - self % by) * (1 / by) + 0.5)

    def _divisor(self, sign: str, other: object) -> float:
        if isinstance(other, Real) and 0 < float(other) < inf:
            return float(other)
        raise self._no(f"{sign} {other!r}", "divide by a positive number, or with /")

    def _no(self, what: str, hint: str) -> ConfigError:
        return ConfigError(
            f"{self.name}: there is no {what} for a value of a loop", hint=hint, field=self.name
        )

    def __repr__(self) -> str:
        return f"<{self.name}: {self.type}>"


MOST_POWER = 16
ROOTS: Mapping[float, str] = MappingProxyType({0.5: "sqrt", -0.5: "rsqrt"})
"""Ops that are powers."""
LOG2_E = 1 / log(2)
"""The logarithm of e to base 2."""
LN2 = log(2)
"""The natural logarithm of 2."""
_UFUNCS = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "negative": "neg",
    "maximum": "max",
    "fmax": "max",
    "minimum": "min",
    "fmin": "min",
    "exp2": "exp2",
    "log2": "log2",
    "reciprocal": "rcp",
    "sqrt": "sqrt",
    "floor": "floor",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "equal": "eq",
}
"""Ops by NumPy's name for them."""
_COMPOSED: Mapping[str, Callable[..., Tensor]] = MappingProxyType(
    {
        "exp": lambda x: x._loop.apply("exp2", x * LOG2_E),
        "log": lambda x: x._loop.apply("log2", x) * LN2,
        "tanh": lambda x: 1.0 - 2.0 / (x._loop.apply("exp2", x * (2 * LOG2_E)) + 1.0),
        "absolute": abs,
        "square": lambda x: x * x,
        "not_equal": lambda a, b: a != b if isinstance(a, Tensor) else b != a,
        "bitwise_and": and_,
        "logical_and": and_,
        "bitwise_or": or_,
        "logical_or": or_,
        "invert": invert,
        "logical_not": invert,
    }
)
"""Those that are made of several."""


def _truth(sign: str, value: object) -> Tensor:
    if isinstance(value, Tensor) and value.type.dtype.is_bool:
        return value
    name = value.name if isinstance(value, Tensor) else repr(value)
    raise ConfigError(
        f"{sign} takes truth values, and {name} is none",
        hint="compare it first: (x > 0) & (y > 0)",
        field=name,
    )

"""Values of a declaration, as users handle them: arithmetic on names, nothing computed yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, log2
from numbers import Real
from typing import TYPE_CHECKING, Any

from pipeloom.declare import bits, composed, methods, numpy_names
from pipeloom.errors import ConfigError
from pipeloom.machine.dtypes import BOOL, I32, DTypeLike
from pipeloom.program.tiles import TileType

if TYPE_CHECKING:
    from pipeloom.declare.loop import Loop

Axis = str | int | tuple[str | int, ...] | None
"""What NumPy calls the dimensions of a reduction: one, several, or all; by place or by name."""


def _operator(op: str) -> Callable[[Tensor, Tensor | float], Tensor]:
    return lambda x, other: x._loop.apply(op, x, other)


def _reflected(op: str) -> Callable[[Tensor, float], Tensor]:
    return lambda x, other: x._loop.apply(op, other, x)


class Tensor:
    """A value of a loop, made by the loop's methods and by arithmetic.

    Dimensions are matched by name, so broadcasting and transposes are free: ``x.T`` only says in
    which order they are counted, and an output has them. What is computed has the order of the
    first operand that has all of them, a carried value keeps its own. ``a @ b`` sums over the one
    dimension that both have. ``c += x`` on a carried value states its next value; from then on
    ``c`` means that.

    Args:
        loop: The loop it belongs to.
        name: The value's name in the loop.
        carry: The carried value whose current state it is; None for any other.
        order: Its dimensions, in the order that they have here; that of the declared value unless
            given.
    """

    __slots__ = ("_carry", "_key", "_loop", "_order")

    def __init__(
        self,
        loop: Loop,
        name: str,
        carry: str | None = None,
        order: tuple[str, ...] | None = None,
    ) -> None:
        self._loop = loop
        self._key = loop.key_of(name)
        self._carry = None if carry is None else loop.key_of(carry)
        self._order = loop.type_of(name).dims if order is None else order

    @property
    def carry(self) -> str | None:
        """The carried value whose current state it is; None for any other."""
        return None if self._carry is None else self._loop.name_of(self._carry)

    @property
    def name(self) -> str:
        """What it is called now, whoever gave it another name."""
        return self._loop.name_of(self._key)

    @property
    def type(self) -> TileType:
        """Its dimensions, sizes and element type."""
        return self._loop.type_of(self.name).ordered(self._order)

    @methods.checked
    def staged(self) -> Tensor:
        """The same value, through LDS: the workgroup loads it together and its waves share it."""
        self._loop.stage(self.name)
        return self

    @property
    def T(self) -> Tensor:
        """The same value with its dimensions the other way round, which an output then has."""
        return self.transpose()

    @methods.checked
    def transpose(self, *dims: str | int | Sequence[str | int]) -> Tensor:
        """The same value with its dimensions in another order, which an output then has.

        Args:
            *dims: All of them, in the order of the result; the other way round unless given.
        """
        order = numpy_names.order(self.name, self.type.dims, dims)
        return Tensor(self._loop, self.name, self.carry, order)

    @methods.checked
    def named(self, name: str) -> Tensor:
        """The same value under a name of yours, which pages and messages then show.

        Args:
            name: The new name, unique in the loop.
        """
        return Tensor(self._loop, self._loop.rename(self.name, name), self.carry, self._order)

    @methods.checked
    def to(self, dtype: DTypeLike) -> Tensor:
        """Converted, rounding to nearest even.

        Args:
            dtype: The element type, or its name.
        """
        return self._loop.apply("convert", self, dtype=dtype)

    def sum(self, *dims: Axis, **options: Axis) -> Tensor:
        """Summed over dimensions; over all of them by default.

        Args:
            *dims: The dimensions to sum over.
            **options: The same as NumPy says it, ``axis="n"``, or PyTorch, ``dim="n"``.
        """
        return self._loop.apply("sum", self, over=self._along(dims, options))

    def sum_squares(self, *dims: Axis, **options: Axis) -> Tensor:
        """The squares, summed over dimensions; over all of them by default.

        Args:
            *dims: The dimensions to sum over.
            **options: The same as NumPy says it, ``axis="n"``, or PyTorch, ``dim="n"``.
        """
        return self._loop.apply("sum_squares", self, over=self._along(dims, options))

    def max(self, *dims: Axis, **options: Axis) -> Tensor:
        """The largest along dimensions; along all of them by default.

        Args:
            *dims: The dimensions that disappear.
            **options: The same as NumPy says it, ``axis="n"``, or PyTorch, ``dim="n"``.
        """
        return self._loop.apply("amax", self, over=self._along(dims, options))

    def min(self, *dims: Axis, **options: Axis) -> Tensor:
        """The smallest along dimensions; along all of them by default.

        Args:
            *dims: The dimensions that disappear.
            **options: The same as NumPy says it, ``axis="n"``, or PyTorch, ``dim="n"``.
        """
        return self._loop.apply("amin", self, over=self._along(dims, options))

    def any(self, *dims: Axis, **options: Axis) -> Tensor:
        """Whether any is true along dimensions; along all of them by default.

        Args:
            *dims: The dimensions that disappear.
            **options: The same as NumPy says it, ``axis="n"``, or PyTorch, ``dim="n"``.
        """
        return self._loop.apply("any", self, over=self._along(dims, options))

    def all(self, *dims: Axis, **options: Axis) -> Tensor:
        """Whether all are true along dimensions; along all of them by default.

        Args:
            *dims: The dimensions that disappear.
            **options: The same as NumPy says it, ``axis="n"``, or PyTorch, ``dim="n"``.
        """
        return ~(~self).any(*dims, **options)

    def mean(self, *dims: Axis, **options: Axis) -> Tensor:
        """The sum over dimensions, divided by how many elements the array has along them.

        Args:
            *dims: The dimensions that disappear; the loop's own is none of them.
            **options: The same as NumPy says it, ``axis="n"``, or PyTorch, ``dim="n"``.
        """
        return self._loop.mean(self, self._along(dims, options))

    def var(
        self,
        *dims: Axis,
        ddof: float | None = None,
        correction: float | None = None,
        **options: Axis,
    ) -> Tensor:
        """The mean square of the distance from the mean.

        Args:
            *dims: The dimensions that disappear; the loop's own is none of them.
            ddof: Subtracted from how many there are, of which the mean is taken: 0 unless given.
            correction: The same as PyTorch says it, whose default is 1: with ``dim`` one of both
                is given.
            **options: The same as NumPy says it, ``axis="n"``, or PyTorch, ``dim="n"``.
        """
        given = [number for number in (ddof, correction) if number is not None]
        if len(given) != 1 if "dim" in options else len(given) > 1:
            raise self._no(
                f"spread with {' and '.join(map(str, given)) or 'no'} degrees of freedom less",
                "say which mean is meant: x.var(dim='n', correction=1) is PyTorch's, "
                "x.var(axis='n') NumPy's, of all of them",
            )
        along, fewer = self._along(dims, options), given[0] if given else 0
        return self._loop.mean((self - self._loop.mean(self, along)) ** 2, along, fewer)

    def std(self, *dims: Axis, **options: Any) -> Tensor:
        """The square root of the variance.

        Args:
            *dims: The dimensions that disappear; the loop's own is none of them.
            **options: What ``var`` takes: ``axis``, or ``dim`` and ``correction``, or ``ddof``.
        """
        return self.var(*dims, **options) ** 0.5

    def argmax(self, *dim: Axis, **options: Axis) -> Tensor:
        """Where the largest element stands along a dimension, the first of equal ones.

        Args:
            *dim: The dimension that disappears.
            **options: The same as NumPy says it, ``axis="n"``, or PyTorch, ``dim="n"``.
        """
        (one,) = self._along(dim, options, most=1)
        return self._first(one, self.max(one))

    def argmin(self, *dim: Axis, **options: Axis) -> Tensor:
        """Where the smallest element stands along a dimension, the first of equal ones.

        Args:
            *dim: The dimension that disappears.
            **options: The same as NumPy says it, ``axis="n"``, or PyTorch, ``dim="n"``.
        """
        (one,) = self._along(dim, options, most=1)
        return self._first(one, self.min(one))

    def _along(
        self, dims: tuple[Axis, ...], options: Mapping[str, Axis], most: int | None = None
    ) -> tuple[str, ...]:
        """The dimensions that a reduction removes; all unless some are named."""
        found = numpy_names.axes(self.name, self.type.dims, dims, options) or self.type.dims
        if most is None or len(found) == most:
            return found
        raise self._no(f"place along {', '.join(found)}", f"name one: x.argmax({found[-1]!r})")

    def _first(self, dim: str, value: Tensor) -> Tensor:
        """The first place of an element that has this value."""
        place = self._loop.index(dim, self.type.sizes[dim])
        return self._loop.apply("select", self == value, place, LARGEST_INDEX).min(dim).to(I32)

    @methods.checked
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
                else f"name the rows of one otherwise, or leave {shared[0]!r} out and say "
                f'loop.batch(..., over=("{shared[0]}",)): a product has two dimensions',
                field="matmul",
            )
        if len(self.type.dims) == 1 or len(other.type.dims) == 1:  # a vector: no matrix unit
            return (self * other).sum(*shared)
        return self._loop.apply("matmul", self, other, over=shared)

    def __iadd__(self, other: Tensor | float) -> Tensor:
        return self + other if self.carry is None else self._loop.accumulate(self, other)

    def __isub__(self, other: Tensor | float) -> Tensor:
        return self - other if self.carry is None else self.becomes(self - other)

    __add__ = _operator("add")
    __sub__ = _operator("sub")
    __mul__ = _operator("mul")
    __truediv__ = _operator("div")
    __radd__ = _reflected("add")
    __rsub__ = _reflected("sub")
    __rmul__ = _reflected("mul")
    __rtruediv__ = _reflected("div")

    def __neg__(self) -> Tensor:
        return self._loop.apply("neg", self)

    __gt__ = _operator("gt")
    __ge__ = _operator("ge")
    __lt__ = _operator("lt")
    __le__ = _operator("le")

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return self._loop.apply("eq", self, self._checked("==", other))

    __hash__ = object.__hash__

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return self._loop.apply("eq", self == other, 0.0)

    def __and__(self, other: Tensor | int) -> Tensor:
        if bits.is_whole(self):
            return bits.combined(self, "bit_and", "&", other)
        return self._loop.apply("mul", bits.truth("&", self), bits.truth("&", other), dtype=BOOL)

    def __or__(self, other: Tensor | int) -> Tensor:
        if bits.is_whole(self):
            return bits.combined(self, "bit_or", "|", other)
        return self._loop.apply("max", bits.truth("|", self), bits.truth("|", other), dtype=BOOL)

    def __xor__(self, other: Tensor | int) -> Tensor:
        if bits.is_whole(self):
            return bits.combined(self, "bit_xor", "^", other)
        return bits.truth("^", self) != bits.truth("^", other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Tensor:
        if bits.is_whole(self):
            return self ^ -1
        return self._loop.apply("eq", bits.truth("~", self), 0.0)

    def __lshift__(self, places: int) -> Tensor:
        """As an i32, from which bits may fall out at its upper end."""
        return bits.combined(self, "shift_left", "<<", bits.places(self, "<<", places))

    def __rshift__(self, places: int) -> Tensor:
        return bits.combined(self, "shift_right", ">>", bits.places(self, ">>", places))

    def __rlshift__(self, number: object) -> Tensor:
        raise self._no(f"{number!r} << x", "powers of two are 2 ** x")

    def __rrshift__(self, number: object) -> Tensor:
        raise self._no(f"{number!r} >> x", "shift by a number: x >> 3")

    def __abs__(self) -> Tensor:
        return self._loop.apply("max", self, -self)

    def __pow__(self, power: float) -> Tensor:
        return composed.power(self, power)

    def __rpow__(self, base: object) -> Tensor:
        if isinstance(base, Real) and 0 < float(base) < inf:
            return self._loop.apply("exp2", self if base == 2 else self * log2(float(base)))
        raise self._no(f"{base!r} ** x", "the base is a positive number")

    def __array_ufunc__(self, function: Any, method: str, *given: Any, **options: Any) -> Tensor:
        """NumPy's functions of values: those that the vocabulary has, by its name for them."""
        return numpy_names.ufunc(self._loop, function.__name__, method, given, options)

    def __array_function__(
        self, function: Any, _types: Any, given: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """NumPy's other functions: reductions, whose axis is a dimension's name, and choices."""
        return numpy_names.function(self._loop, function.__name__, given, options)

    def _checked(self, sign: str, other: object) -> Tensor | float:
        if isinstance(other, Tensor | Real):
            return other  # type: ignore[return-value]
        raise ConfigError(
            f"{self.name} {sign} {other!r}: a value is compared with a value or a number",
            hint="leave it out, or declare what it should be compared with",
            field=self.name,
        )

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

    def __mod__(self, other: Tensor | float) -> Tensor:
        """What is left of a division that rounds down: exact for whole numbers below 2^24."""
        return composed.remainder(self, self._divisor("%", other))

    def __floordiv__(self, other: Tensor | float) -> Tensor:
        return composed.floor_divide(self, self._divisor("//", other))

    def __rmod__(self, other: float) -> Tensor:
        return composed.remainder(other, self)

    def __rfloordiv__(self, other: float) -> Tensor:
        return composed.floor_divide(other, self)

    def _divisor(self, sign: str, other: object) -> Tensor | float:
        if isinstance(other, Tensor) or (isinstance(other, Real) and 0 < abs(float(other)) < inf):
            return other  # type: ignore[return-value]
        raise self._no(f"{sign} {other!r}", "divide by a value, or a number other than 0")

    def __getattr__(self, name: str) -> Any:
        """What is a method elsewhere: NumPy's functions of one value, and PyTorch's."""
        if name.startswith("_"):  # of which a copy has none until it is made
            raise AttributeError(name)
        return methods.found(self, name)

    def __copy__(self) -> Tensor:
        return self

    def __reduce__(self) -> str:
        """What deep copies and pickles ask for."""
        raise self._no(
            "copy apart from it",
            "call the function that declares the loop again: a loop of its own, and its values",
        )

    def _no(self, what: str, hint: str) -> ConfigError:
        return ConfigError(
            f"{self.name}: there is no {what} for a value of a loop", hint=hint, field=self.name
        )

    def __repr__(self) -> str:
        return f"<{self.name}: {self.type}>"


LARGEST_INDEX = 2.0**24
"""Above every index, which are whole numbers in f32."""

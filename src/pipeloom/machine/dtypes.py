"""Element types: one record per type, from which rounding, encoding and sizes follow.

A type is a sign, exponent and mantissa field, so a type that no vendor ships yet is a value of your
own, not a change here:

    e3m0 = DType("fp4_e3m0", exponent=3, mantissa=0, bias=3)
    e3m0.bits, e3m0.largest            # 4, 16.0
    e3m0.round(np.array([0.3, 5.0]))   # the nearest values it can hold: 0.25, 4.0

A ``BlockScale`` makes a type of blocks: so many consecutive elements share one power of two. Arrays
of values are float32 (float64 for ``f64``) throughout; ``encode`` gives the bit patterns.

Sources: OCP 8-bit Floating Point Specification 1.0 (e4m3, e5m2), OCP Microscaling Formats 1.0
(e2m1, e2m3, e3m2, block scales of 32 elements, E8M0), CDNA3 ISA (FNUZ: bias one higher, no
infinities, one NaN in place of -0), IEEE 754.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeloom.checks import check_int, nearest
from pipeloom.errors import ConfigError

Values = NDArray[Any]
Codes = NDArray[np.uint16]

TABLE_BITS = 16
"""Types up to this width round through a table of all their values."""


class Specials(Enum):
    """What the largest codes mean, and with it where an overflow goes."""

    IEEE = "ieee"
    """The top exponent holds infinities and NaNs. Overflow gives infinity."""
    LAST_NAN = "last_nan"
    """One code, all ones, is NaN. Overflow saturates."""
    FNUZ = "fnuz"
    """Negative zero is the only NaN. Overflow saturates."""
    NONE = "none"
    """Every code is a number. Overflow saturates."""


@dataclass(frozen=True, slots=True)
class BlockScale:
    """A power of two that consecutive elements share (OCP Microscaling)."""

    size: int = 32
    """Consecutive elements along a row that share one scale."""
    exponent: int = 8
    """Bits of the scale's code; 8 is E8M0."""


@dataclass(frozen=True, slots=True)
class DType:
    """A floating-point type, or (with no exponent) an integer of ``mantissa`` bits and a sign."""

    name: str
    """What declarations and files call it. Writers know types by name, so a type of your own needs
    a name of its own."""
    exponent: int
    """Bits of the exponent; 0 for integers."""
    mantissa: int
    """Bits of the mantissa, without the leading one."""
    bias: int = 0
    """What is subtracted from the exponent's code."""
    specials: Specials = Specials.NONE
    """What the largest codes mean, and with it where an overflow goes."""
    scale: BlockScale | None = None
    """The block scale that its elements share; None for a plain type."""
    unsigned: bool = False
    """Whether it has no sign bit, as scales do."""
    covers: int = 1
    """Consecutive elements of the last dimension that one code in memory stands for."""

    def __post_init__(self) -> None:
        check_int("DType", "exponent", self.exponent, 0, 11)
        check_int("DType", "mantissa", self.mantissa, 0, 52)
        check_int("DType", "covers", self.covers, 1)
        top = (1 << self.exponent) - 1 - (self.specials is Specials.IEEE)
        check_int("DType", "bias", self.bias, top - 1023, 1023, "its values must be doubles, too")
        if not self.name or self.bits < 1:
            raise ConfigError(
                f"DType {self.name!r} has no bits or no name",
                hint="give a name and at least one exponent or mantissa bit",
                field="DType.name",
            )

    @property
    def bits(self) -> int:
        """Bits of one code, without its share of a block scale; a bool has one."""
        return 1 if self.is_bool else self.exponent + self.mantissa + (not self.unsigned)

    @property
    def code(self) -> str:
        """The name of the type of one code: its own, but for codes that cover several elements."""
        return self.name.partition(":")[0]

    def per(self, count: int) -> DType:
        """The same type with one code in memory for ``count`` elements of the last dimension.

        What scales and zero points of groups are: ``loop.stream("S", pl.F32.per(128), n=256,
        k=64)`` has the dimensions of the weights, and an array of n x k / 128.

        Args:
            count: How many consecutive elements share a code.
        """
        check_int("DType", "per", count, 1)
        return replace(self, name=f"{self.code}:{count}", covers=count)

    @property
    def held(self) -> type[np.floating[Any]]:
        """NumPy's type that has all of its values: a double for those of more than f32's bits."""
        return np.float64 if self.mantissa > 23 else np.float32

    @property
    def is_bool(self) -> bool:
        """Whether it holds truth values."""
        return self.exponent == 0 and self.mantissa == 0

    @property
    def is_integer(self) -> bool:
        """Whether it holds whole numbers."""
        return self.exponent == 0 and self.mantissa > 0

    @property
    def lowest(self) -> float:
        """The most negative finite value; 0 of a type without a sign."""
        if self.unsigned:
            return 0.0
        return -self.largest - (1 if self.is_integer else 0)

    @property
    def largest(self) -> float:
        """The largest finite value."""
        if self.exponent == 0:
            return float(2**self.mantissa - 1) if self.mantissa else 1.0
        top = (1 << self.exponent) - 1 - self.bias
        if self.specials is Specials.IEEE:
            return (2 - 2.0**-self.mantissa) * 2.0 ** (top - 1)
        last = 2 - 2.0**-self.mantissa
        if self.specials is Specials.LAST_NAN:
            if self.mantissa == 0:
                return 2.0 ** (top - 1)
            last = 2 - 2.0 ** (1 - self.mantissa)
        return float(last * 2.0**top)

    @property
    def smallest(self) -> float:
        """The smallest positive value."""
        return 2.0 ** ((not self.unsigned) - self.bias - self.mantissa) if self.exponent else 1.0

    def holds(self, other: DType) -> bool:
        """Whether every value of ``other`` is one of this type, so that nothing is rounded.

        Args:
            other: The type whose values are asked about.
        """
        return _holds(self, other)

    def bytes(self, elements: int) -> int:
        """Bytes of ``elements`` packed elements, block scales left out; whole bytes only.

        Args:
            elements: How many elements.
        """
        total = elements * self.bits // self.covers
        if total % 8:
            raise ConfigError(
                f"{elements} elements of {self.name} are {total} bits, not whole bytes",
                hint=f"use a multiple of {8 // np.gcd(8, self.bits)} elements",
                field="DType",
            )
        return total // 8

    def round(self, values: ArrayLike) -> Values:
        """The nearest values of the type, ties to even; blocks run along the last axis.

        Integers saturate, and are 0 where there is a NaN.

        Args:
            values: Any numbers.
        """
        array: Values = np.asarray(values, self.held)
        if self.scale is not None:
            scales = self.scales(array)
            return self._round(array / scales) * scales
        return self._round(array)

    def scales(self, values: Values) -> Values:
        """The block scale of each element: the power of two that fits the largest of its block.

        Args:
            values: Numbers whose last axis is whole blocks.
        """
        assert self.scale is not None
        size = self.scale.size
        if values.shape[-1] % size:
            raise ConfigError(
                f"a row of {values.shape[-1]} elements is not whole blocks of {size}",
                hint=f"make the last dimension a multiple of {size}",
                field="DType.scale",
            )
        blocks = np.abs(values.reshape(*values.shape[:-1], -1, size)).max(axis=-1)
        with np.errstate(divide="ignore"):
            exponent = np.floor(np.log2(blocks)) - np.floor(np.log2(self.largest))
        exponent = np.clip(np.where(blocks > 0, exponent, 0), -127, 127)
        scales: Values = np.repeat(np.exp2(exponent), size, axis=-1).astype(values.dtype)
        return scales

    def _round(self, array: Values) -> Values:
        if self.is_bool:
            truth: Values = (array != 0).astype(array.dtype)
            return truth
        if self.is_integer:
            clipped: Values = np.clip(np.rint(array), self.lowest, self.largest)
            return np.where(np.isnan(array), array.dtype.type(0), clipped)
        if self.bits > TABLE_BITS:
            with np.errstate(over="ignore"):
                return array.astype(np.float64 if self.bits > 32 else np.float32)
        return _decode_table(self)[self.encode(array)].astype(array.dtype)

    def encode(self, values: ArrayLike) -> Codes:
        """The bit patterns of the nearest values; needs at most 16 bits, and no block scale.

        Args:
            values: Any numbers; they are rounded first.
        """
        if self.bits > TABLE_BITS or self.is_bool:
            raise ConfigError(
                f"{self.name} has no code table", hint="use NumPy's own type", field="DType"
            )
        array = np.asarray(values, np.float64)
        if self.is_integer:
            whole = self._round(array).astype(np.int64)
            return (whole & ((1 << self.bits) - 1)).astype(np.uint16)
        ordered = _magnitudes(self)
        size = np.abs(array)
        code = np.minimum(np.maximum(self._last_below(size), 0), len(ordered) - 2)
        below, above = size - ordered[code], ordered[code + 1] - size
        # Neighbouring magnitudes have neighbouring codes, so the even code is the even mantissa.
        code += (above < below) | ((above == below) & (code % 2 == 1))
        sign = np.signbit(array) & (not self.unsigned)
        if self.specials is Specials.FNUZ:
            sign = sign & (code > 0) & ~np.isnan(array)
        code = np.where(np.isnan(array), self._nan_code(), code)
        codes: Codes = (code + (sign.astype(np.uint32) << (self.bits - 1))).astype(np.uint16)
        return codes

    def _last_below(self, size: NDArray[np.float64]) -> NDArray[np.int64]:
        """The code of the last magnitude that is no larger, by a double's own bits."""
        if self.unsigned:  # scales: powers of two without a zero
            last: NDArray[np.int64] = np.searchsorted(_magnitudes(self), size, "right") - 1
            return last
        normal = (size.view(np.int64) >> (52 - self.mantissa)) - (
            (1023 - self.bias) << self.mantissa
        )
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.fmin(size / self.smallest, 1 << self.mantissa)  # of those below the normal
        found: NDArray[np.int64] = np.maximum(normal, steps.astype(np.int64))
        return found

    def decode(self, codes: Codes) -> Values:
        """The values of bit patterns.

        Args:
            codes: Bit patterns, as ``encode`` gives them.
        """
        return _decode_table(self)[codes]

    def _nan_code(self) -> int:
        """A NaN of positive sign; the largest code where the type has none."""
        if self.specials is Specials.IEEE:
            return (((1 << self.exponent) - 1) << self.mantissa) | (1 << max(self.mantissa - 1, 0))
        if self.specials is Specials.FNUZ:
            return 1 << (self.bits - 1)
        return (1 << (self.bits - (not self.unsigned))) - 1

    def __str__(self) -> str:
        return self.name


@lru_cache(maxsize=1024)
def _holds(one: DType, other: DType) -> bool:
    if replace(one, name="x") == replace(other, name="x") or other.is_bool:
        return True
    if one.is_bool or one.scale is not None or other.scale is not None:
        return False
    infinite = other.specials is not Specials.IEEE or one.specials is Specials.IEEE
    exact = one.mantissa + (one.exponent > 0) >= other.mantissa + (other.exponent > 0)
    ranges = one.largest >= other.largest and one.smallest <= other.smallest
    return exact and ranges and infinite and (one.exponent > 0 or other.exponent == 0)


@lru_cache(maxsize=64)
def _decode_table(dtype: DType) -> Values:
    """The value of every code."""
    codes = np.arange(1 << dtype.bits)
    if dtype.is_integer:
        below = 0 if dtype.unsigned else 1 << (dtype.bits - 1)
        return np.asarray((codes ^ below) - below, np.float32)
    if dtype.unsigned:  # E8M0: powers of two, the last code is NaN
        powers: Values = np.exp2(codes - float(dtype.bias))
        powers[-1] = np.nan
        return np.asarray(powers, np.float32)
    sign = np.where(codes >> (dtype.bits - 1), -1.0, 1.0)
    exponent = (codes >> dtype.mantissa) & ((1 << dtype.exponent) - 1)
    mantissa = (codes & ((1 << dtype.mantissa) - 1)) / (1 << dtype.mantissa)
    normal = (1 + mantissa) * np.exp2(exponent - float(dtype.bias))
    table = sign * np.where(exponent == 0, mantissa * np.exp2(1.0 - dtype.bias), normal)
    magnitude = codes & ((1 << (dtype.bits - 1)) - 1)
    if dtype.specials is Specials.IEEE:
        top = exponent == (1 << dtype.exponent) - 1
        table = np.where(top, np.where(mantissa > 0, np.nan, sign * np.inf), table)
    elif dtype.specials is Specials.LAST_NAN:
        table = np.where(magnitude == (1 << (dtype.bits - 1)) - 1, np.nan, table)
    elif dtype.specials is Specials.FNUZ:
        table = np.where(codes == 1 << (dtype.bits - 1), np.nan, table)
    values: Values = table.astype(np.float32)
    return values


@lru_cache(maxsize=64)
def _magnitudes(dtype: DType) -> NDArray[np.float64]:
    """The values of the positive codes in order; infinity where an overflow gives it."""
    codes = 1 << (dtype.bits - (not dtype.unsigned))
    table = _decode_table(dtype)[:codes].astype(np.float64)
    if dtype.specials is not Specials.IEEE:
        return table[~np.isnan(table)]
    finite = table[np.isfinite(table)]
    # IEEE rounds to infinity from half a unit past the largest value on.
    beyond = finite[-1] + (finite[-1] - finite[-2])
    return np.append(finite, beyond)


F64 = DType("f64", 11, 52, 1023, Specials.IEEE)
"""IEEE double precision."""
F32 = DType("f32", 8, 23, 127, Specials.IEEE)
"""IEEE single precision: what the matrix unit accumulates in."""
BF16 = DType("bf16", 8, 7, 127, Specials.IEEE)
"""bfloat16: 8 bits of exponent, 7 of mantissa."""
FP16 = DType("fp16", 5, 10, 15, Specials.IEEE)
"""IEEE half precision."""
FP8 = DType("fp8", 4, 3, 7, Specials.LAST_NAN)
"""OCP e4m3: 8 bits, no infinities. gfx950 multiplies it."""
BF8 = DType("bf8", 5, 2, 15, Specials.IEEE)
"""OCP e5m2: 8 bits, with infinities. gfx950 multiplies it."""
FP8_FNUZ = DType("fp8_fnuz", 4, 3, 8, Specials.FNUZ)
"""e4m3 as gfx942 has it: bias 8, one NaN, no negative zero."""
BF8_FNUZ = DType("bf8_fnuz", 5, 2, 16, Specials.FNUZ)
"""e5m2 as gfx942 has it: bias 16, one NaN, no negative zero."""
FP6 = DType("fp6", 2, 3, 1)
"""OCP e2m3: 6 bits, every code a number."""
BF6 = DType("bf6", 3, 2, 3)
"""OCP e3m2: 6 bits, every code a number."""
FP4 = DType("fp4", 2, 1, 1)
"""OCP e2m1: 4 bits, every code a number."""
MXFP8 = DType("mxfp8", 4, 3, 7, Specials.LAST_NAN, BlockScale())
"""``FP8`` in blocks of 32 that share a power of two."""
MXFP6 = DType("mxfp6", 2, 3, 1, Specials.NONE, BlockScale())
"""``FP6`` in blocks of 32 that share a power of two."""
MXFP4 = DType("mxfp4", 2, 1, 1, Specials.NONE, BlockScale())
"""``FP4`` in blocks of 32 that share a power of two."""
E8M0 = DType("e8m0", 8, 0, 127, Specials.LAST_NAN, unsigned=True, covers=32)
"""The scales of those three: in memory one for 32 elements along a row."""
I4 = DType("i4", 0, 3)
"""A signed integer of 4 bits, -8 to 7; two share a byte, the first in its low half."""
U4 = DType("u4", 0, 4, unsigned=True)
"""An integer of 4 bits, 0 to 15, as weights with zero points have them."""
I8 = DType("i8", 0, 7)
"""A signed byte."""
U8 = DType("u8", 0, 8, unsigned=True)
"""A byte, 0 to 255."""
I32 = DType("i32", 0, 31)
"""A signed 32-bit integer."""
BOOL = DType("bool", 0, 0)
"""A truth value: what comparisons give."""

DTypeLike = DType | str | type
"""What stands for a type: one of these, a name, or NumPy's or PyTorch's type."""

DTYPES: tuple[DType, ...] = (
    F64, F32, BF16, FP16, FP8, BF8, FP8_FNUZ, BF8_FNUZ, FP6, BF6, FP4, MXFP8, MXFP6,
    MXFP4, E8M0, I4, U4, I8, U8, I32, BOOL,
)  # fmt: skip


def stored_as(dtype: DType, narrow: DType = F32) -> DType:
    """What sums of products of a type are stored as, where nobody says.

    Types of at most 8 bits are too coarse for sums. A kernel by itself stores f32, which is what
    the matrix unit sums in, so that nothing is rounded. The tuner says bf16 for ``narrow``, as the
    libraries do whose times stand beside its own: half the bytes.

    Args:
        dtype: The type of A and B.
        narrow: What stands for the small ones.
    """
    return narrow if dtype.bits <= 8 else dtype


_ENDINGS = {Specials.LAST_NAN: "fn", Specials.NONE: "fn", Specials.FNUZ: "fnuz"}
"""How NumPy's and PyTorch's names of small floats say which numbers they lack."""


def _name_elsewhere(dtype: DType) -> str:
    """What NumPy, ml_dtypes and PyTorch call a type."""
    if dtype.scale is not None or dtype.covers > 1 or dtype.is_bool:
        return dtype.name
    if dtype.is_integer:
        return f"{'u' * dtype.unsigned}int{dtype.bits}"
    if dtype.bits > 8:
        return f"{'b' * (dtype == BF16)}float{dtype.bits}"
    ending = _ENDINGS.get(dtype.specials, "")
    return f"float{dtype.bits}_e{dtype.exponent}m{dtype.mantissa}{ending}"


def dtype_for(name: DTypeLike | object) -> DType:
    """The shipped type called ``name``; a ``DType`` is itself, if the name is not taken.

    Args:
        name: A name such as ``bf16``, or a ``DType``. NumPy's and PyTorch's types are taken too,
            as they are or by name: ``np.float16``, ``torch.bfloat16``, ``"float32"``.
    """
    if isinstance(name, DType):
        if any(dtype.name == name.name and dtype != name for dtype in DTYPES):
            raise ConfigError(
                f"{name.name} is the name of a shipped type that differs from this one",
                hint="give a type of your own a name of its own: writers know types by name",
                field="dtype",
            )
        return name
    said = str(getattr(name, "__name__", name)).removeprefix("torch.").removesuffix("_")
    for dtype in DTYPES:
        if said in (dtype.name, _name_elsewhere(dtype)):
            return dtype
    raise ConfigError(
        f"unknown element type {name!r}",
        hint=nearest(said, [d.name for d in DTYPES]),
        field="dtype",
    )

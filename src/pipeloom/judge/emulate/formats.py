"""Number formats that NumPy lacks: bf16, and the 8-, 6- and 4-bit floats of the matrix unit.

The narrow formats are decoded by table (at most 256 entries), encoded by search in the sorted
table of positive values, rounding to nearest even.

Encodings: OCP 8-bit floating point specification (e4m3, e5m2; gfx950), the FNUZ variants with one
more exponent bias and no negative zero (gfx942), and OCP microscaling formats (e2m3, e3m2, e2m1).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pipeloom.array_kinds import Octets
from pipeloom.machine.chips import element_type, target_for
from pipeloom.machine.dtypes import Specials

Floats = npt.NDArray[np.float32]
Halves = npt.NDArray[np.uint16]


def bf16_to_f32(bits: Halves) -> Floats:
    """bf16 bit patterns as float32."""
    wide = bits.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def f32_to_bf16(values: Floats) -> Halves:
    """float32 to bf16 bit patterns, to nearest even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, bits >> 16 | 0x40, rounded).astype(np.uint16)


@lru_cache(maxsize=16)
def float_table(name: str) -> Floats:
    """Value of every bit pattern of a narrow format: e4m3, e5m2, ..fnuz, e2m3, e3m2, e2m1."""
    exponent_bits, mantissa_bits = int(name[1]), int(name[3])
    fnuz = name.endswith("fnuz")
    width = 1 + exponent_bits + mantissa_bits
    bias = (1 << (exponent_bits - 1)) - (0 if fnuz else 1)
    if name == "e2m1":
        bias = 1
    pattern = np.arange(1 << width)
    mantissa = pattern & ((1 << mantissa_bits) - 1)
    exponent = pattern >> mantissa_bits & ((1 << exponent_bits) - 1)
    sign = np.where(pattern >> (width - 1), -1.0, 1.0)
    fraction = mantissa / (1 << mantissa_bits)
    value = np.where(
        exponent == 0,
        fraction * 2.0 ** (1 - bias),
        (1 + fraction) * 2.0 ** (exponent - bias),
    )
    value = sign * value
    top = (1 << exponent_bits) - 1
    if fnuz:
        value[1 << (width - 1)] = np.nan
    elif name == "e4m3":
        value[(exponent == top) & (mantissa == 7)] = np.nan
    elif name == "e5m2":
        infinite = exponent == top
        value[infinite] = np.where(mantissa[infinite] == 0, sign[infinite] * np.inf, np.nan)
    table = value.astype(np.float32)
    table.setflags(write=False)
    return table


@lru_cache(maxsize=16)
def _positive(name: str) -> Floats:
    """The finite non-negative values of a format, ascending: index is bit pattern."""
    table = float_table(name)[: len(float_table(name)) // 2]
    return table[np.isfinite(table)]


def encode_float(values: Floats, name: str) -> Octets:
    """float32 to a narrow format, to nearest even.

    Values past the largest finite one become the format's NaN (e5m2: infinity), which is what the
    hardware does without the clamping mode bit FP16_OVFL. The 6- and 4-bit formats have neither:
    they saturate, NaN included.
    """
    table = _positive(name).astype(np.float64)
    wide = np.abs(values.astype(np.float64))
    upper = np.clip(np.searchsorted(table, wide), 1, table.size - 1)
    lower = upper - 1
    above, below = table[upper] - wide, wide - table[lower]
    even = np.where(lower % 2 == 0, lower, upper)
    code = np.where(above < below, upper, np.where(below < above, lower, even))
    code = np.where(wide == 0, 0, code)
    half = len(float_table(name)) // 2
    sign = np.signbit(values).astype(np.int64) * half
    if half < 128:
        return (np.where(np.isnan(values), half - 1, code) | sign).astype(np.uint8)
    half_step = (table[-1] - table[-2]) / 2
    over = wide > table[-1] + half_step
    over |= (wide == table[-1] + half_step) & (table.size % 2 == 0)
    fnuz = name.endswith("fnuz")
    if fnuz:
        sign = np.where(code == 0, 0, sign)
    special = 0x80 if fnuz else 0x7F
    overflow = 0x80 if fnuz else (0x7C if name == "e5m2" else 0x7F)
    result = np.where(over, overflow | (0 if fnuz else sign), code | sign)
    nan = np.isnan(values)
    return np.where(nan, special, result).astype(np.uint8)


def fp8_names(arch: str) -> tuple[str, str]:
    """The (fp8, bf8) encodings of a target: FNUZ's, or OCP's."""
    specials = element_type("fp8", target_for(arch)).specials
    fnuz = "fnuz" if specials is Specials.FNUZ else ""
    return f"e4m3{fnuz}", f"e5m2{fnuz}"


def unpack_bits(words: Octets, width: int) -> Octets:
    """Bytes along the last axis as ``width``-bit codes (6 or 4), low bits first."""
    if width == 4:
        return np.stack([words & 15, words >> 4], axis=-1).reshape(*words.shape[:-1], -1)
    bits = np.unpackbits(words, axis=-1, bitorder="little")
    grouped = bits.reshape(*words.shape[:-1], -1, width)
    weights = (1 << np.arange(width)).astype(np.uint8)
    codes6: Octets = (grouped * weights).sum(axis=-1, dtype=np.uint8)
    return codes6

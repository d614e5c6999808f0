"""What an atomic does to a cell, shared by global memory and LDS.

An operation maps (old bits, operand bits, compare bits) to new bits, on plain ints of 32 or 64
bits; compare is 0 but for compare-and-swap. Lanes are applied one after the other in lane order,
where hardware promises only that each is indivisible.

    atomic_operation("umax", 32)(3, 7, 0)  ->  7

Source: CDNA3 and CDNA4 ISA, the descriptions of BUFFER_ATOMIC_*, GLOBAL_ATOMIC_* and DS_*.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipeloom.judge.emulate.formats import bf16_to_f32, f32_to_bf16
from pipeloom.judge.emulate.scalar_ops import signed

Combine = Callable[[int, int, int], int]


def _add_halves(old: int, new: int, _: int) -> int:
    a, b = (np.array([x], np.uint32).view(np.float16) for x in (old, new))
    return int((a + b).view(np.uint32)[0])


def _add_bf16(old: int, new: int, _: int) -> int:
    a, b = (bf16_to_f32(np.array([x], np.uint32).view(np.uint16)) for x in (old, new))
    return int(f32_to_bf16(a + b).view(np.uint32)[0])


def _increment(old: int, new: int, _: int) -> int:
    return 0 if old >= new else old + 1


def _decrement(old: int, new: int, _: int) -> int:
    return new if old == 0 or old > new else old - 1


_UNTYPED: dict[str, Combine] = {
    "swap": lambda old, new, _: new,
    "cmpswap": lambda old, new, compare: new if old == compare else old,
    "umin": lambda old, new, _: min(old, new),
    "umax": lambda old, new, _: max(old, new),
    "and": lambda old, new, _: old & new,
    "or": lambda old, new, _: old | new,
    "xor": lambda old, new, _: old ^ new,
    "mskor": lambda old, new, compare: old & ~compare | new,
    "inc": _increment,
    "dec": _decrement,
    "pk_add_f16": _add_halves,
    "pk_add_bf16": _add_bf16,
}


def _float_operation(name: str, bits: int) -> Combine | None:
    kind, word = ("f4", "u4") if bits == 32 else ("f8", "u8")

    def combine(old: int, new: int, compare: int) -> int:
        a, b, c = (np.array([x], word).view(kind) for x in (old, new, compare))
        if name == "add":
            result = a + b
        elif name == "min":
            result = b if bool(b[0] < a[0]) else a
        elif name == "max":
            result = b if bool(b[0] > a[0]) else a
        else:
            result = b if bool(a[0] == c[0]) else a
        return int(result.view(word)[0])

    return combine if name in ("add", "min", "max", "cmpswap") else None


def atomic_operation(name: str, bits: int) -> Combine | None:
    """The operation of this name on cells of 32 or 64 bits; None if there is none."""
    mask = (1 << bits) - 1
    if name in _UNTYPED:
        return _UNTYPED[name]
    if name.endswith(("_f32", "_f64")):
        return _float_operation(name[:-4], bits)
    integer: dict[str, Combine] = {
        "add": lambda old, new, _: old + new & mask,
        "sub": lambda old, new, _: old - new & mask,
        "rsub": lambda old, new, _: new - old & mask,
        "smin": lambda old, new, _: old if signed(old, bits) <= signed(new, bits) else new,
        "smax": lambda old, new, _: old if signed(old, bits) >= signed(new, bits) else new,
    }
    return integer.get(name)

"""Vector operations with a lane mask beside their operands or result (rows for ``valu``).

Sums with carries, v_mad_u64_u32 and v_mad_i64_i32, whose addend and result are register pairs, and
the scaling steps of a division.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from pipeloom.array_kinds import Array, Flags
from pipeloom.judge.emulate.division import DOUBLE, SINGLE, division_fused, division_scale
from pipeloom.judge.emulate.register_numbers import WORD
from pipeloom.judge.emulate.valu import VecOp


def _summed(sign: int, *, swapped: bool) -> Callable[..., tuple[Array, Flags]]:
    """a + b + carry or a - b - carry, and where that leaves 32 bits."""

    def function(a: Array, b: Array, carry: Flags | int = 0) -> tuple[Array, Flags]:
        first, second = (b, a) if swapped else (a, b)
        total = first.astype(np.int64) + sign * (second.astype(np.int64) + carry)
        return total.astype(np.uint32), (total < 0) | (total > WORD)

    return function


def _multiply_add(a: Array, b: Array, c: Array) -> tuple[Array, Flags]:
    """a * b + c in 64 bits, and its 65th: the carry or, of signed numbers, the sign."""
    signed, top = a.dtype == np.int32, np.uint64(63)
    wide = np.int64 if signed else np.uint64
    product: Array = (a.astype(wide) * b.astype(wide)).view(np.uint64)
    total = product + c
    over: Flags = total < c
    if signed:
        over = over ^ (product >> top == 1) ^ (c >> top == 1)
    return total, over


_SUMS = (("add", "addc", 1, False), ("sub", "subb", -1, False), ("subrev", "subbrev", -1, True))
WIDE_OPS: dict[str, VecOp] = {
    **{
        f"v_{name}_co_u32": VecOp(
            "u32",
            ("u32", "u32"),
            _summed(sign, swapped=swapped),
            takes_mask=name == carrying,
            gives_mask=True,
        )
        for plain, carrying, sign, swapped in _SUMS
        for name in (plain, carrying)
    },
    "v_mad_u64_u32": VecOp("u64", ("u32", "u32", "u64"), _multiply_add, gives_mask=True),
    "v_mad_i64_i32": VecOp("u64", ("i32", "i32", "u64"), _multiply_add, gives_mask=True),
}
for _kind, _precision in (("f32", SINGLE), ("f64", DOUBLE)):
    WIDE_OPS[f"v_div_scale_{_kind}"] = VecOp(
        _kind, (_kind,) * 3, partial(division_scale, _precision), gives_mask=True
    )
    WIDE_OPS[f"v_div_fmas_{_kind}"] = VecOp(
        _kind, (_kind,) * 3, partial(division_fused, _precision), takes_mask=True
    )

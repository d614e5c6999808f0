"""The vector operation that only double precision has (a row for ``valu``)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.valu import VecOp

Doubles = npt.NDArray[np.float64]

_PI_BITS = 1201


@lru_cache(maxsize=1)
def _two_over_pi() -> int:
    """The first 1201 fraction bits of 2/pi, by Machin's formula in integers."""
    scale = 1 << (_PI_BITS + 64)

    def arctan_inverse(x: int) -> int:
        term = scale // x
        total, n, sign = term, 3, -1
        while term:
            term //= x * x
            total += sign * (term // n)
            n, sign = n + 2, -sign
        return total

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    return ((2 * scale) << _PI_BITS) // pi


def _trig_preop(a: Doubles, part: npt.NDArray[np.uint32]) -> Doubles:
    """v_trig_preop_f64: 53 bits of 2/pi, chosen by the argument's size (for range reduction)."""
    bits = np.ascontiguousarray(a).view(np.uint64)
    exponents = (bits >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int64)
    exponents, parts = np.broadcast_arrays(exponents, part)
    result = []
    for exponent, chunk in zip(exponents.tolist(), parts.tolist(), strict=True):
        shift = (chunk & 31) * 53 + max(exponent - 1077, 0)
        whole = (_two_over_pi() << shift) >> (_PI_BITS - 53) & ((1 << 53) - 1)
        power = -53 - shift + (128 if exponent >= 1968 else 0)
        result.append(float(np.ldexp(float(whole), power)))
    return np.array(result)


DOUBLE_OPS = {"v_trig_preop_f64": VecOp("f64", ("f64", "u32"), _trig_preop)}

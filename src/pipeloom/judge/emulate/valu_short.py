"""16-bit integer vector operations (rows for ``valu``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.valu import VecOp

Values = npt.NDArray[Any]
Function = Callable[..., Values]

_U16 = ("u16", "u16")
_I16 = ("i16", "i16")
_U16_3 = ("u16", "u16", "u16")
_I16_3 = ("i16", "i16", "i16")


def saturating(function: Function) -> Function:
    """The function on exact integers, clipped to the range of its arguments' type."""

    def run(*values: Values) -> Values:
        info = np.iinfo(values[0].dtype)
        exact = function(*[value.astype(np.int64) for value in values])
        clipped: Values = np.clip(exact, info.min, info.max).astype(values[0].dtype)
        return clipped

    return run


def _reverse_subtract(a: Values, b: Values) -> Values:
    difference: Values = b - a
    return difference


def _multiply_add(a: Values, b: Values, c: Values) -> Values:
    total: Values = a * b + c
    return total


def _clamped(result: str, sources: tuple[str, ...], function: Function) -> VecOp:
    return VecOp(result, sources, function, saturated=saturating(function))


SHORT_OPS: dict[str, VecOp] = {
    "v_add_u16": _clamped("u16", _U16, np.add),
    "v_sub_u16": _clamped("u16", _U16, np.subtract),
    "v_subrev_u16": _clamped("u16", _U16, _reverse_subtract),
    "v_add_i16": _clamped("i16", _I16, np.add),
    "v_sub_i16": _clamped("i16", _I16, np.subtract),
    "v_mul_lo_u16": VecOp("u16", _U16, np.multiply),
    "v_mad_u16": _clamped("u16", _U16_3, _multiply_add),
    "v_mad_i16": _clamped("i16", _I16_3, _multiply_add),
    "v_lshlrev_b16": VecOp("u16", _U16, lambda a, b: b << (a & 15)),
    "v_lshrrev_b16": VecOp("u16", _U16, lambda a, b: b >> (a & 15)),
    "v_ashrrev_i16": VecOp("i16", _I16, lambda a, b: b >> (a & 15)),
    "v_sat_pk_u8_i16": VecOp(
        "u16",
        ("u32",),
        lambda a: (_unsigned_byte(a) | _unsigned_byte(a >> 16) << 8).astype(np.uint16),
    ),
}


def _unsigned_byte(a: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    return np.clip(a.astype(np.uint16).view(np.int16).astype(np.int64), 0, 255)

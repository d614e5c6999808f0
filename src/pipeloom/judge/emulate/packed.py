"""Packed math (VOP3P), as rows for ``valu``: two halves, or two f32, per instruction; and sums.

A packed instruction does twice what the instruction of the same name does once: its function takes
both values as rows of an array. Sums of packed values (v_dot2, v_dot4, v_dot8 and the accumulating
v_dot*c forms) have rows of their own:

    v_dot4_i32_i8 v0, v1, v2, v3       v0 = v3 + sum of four byte products
    v_dot2c_f32_f16 v0, v1, v2         v0 = v0 + sum of two half products
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import numpy as np

from pipeloom.array_kinds import Array, Words
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.formats import bf16_to_f32
from pipeloom.judge.emulate.operands import unsupported
from pipeloom.judge.emulate.valu import VecOp
from pipeloom.judge.emulate.valu_float import FLOAT_OPS
from pipeloom.judge.emulate.valu_integer import INTEGER_OPS
from pipeloom.judge.emulate.vector_values import MIXED, PACKED, PICKED

_TWICE = {
    "f16": ("add", "mul", "fma", "min", "max"),
    "u16": ("add", "sub", "mul_lo", "mad", "min", "max"),
    "i16": ("add", "sub", "mad", "min", "max", "ashrrev"),
    "b16": ("lshlrev", "lshrrev"),
    "f32": ("add", "mul", "fma"),
}


def _twice(one: VecOp) -> VecOp:
    kinds = tuple(PACKED + kind for kind in one.sources)
    return replace(one, result=PACKED + one.result, sources=kinds)


def _extreme3(name: str) -> VecOp:
    return VecOp("2f16", ("2f16",) * 3, FLOAT_OPS[name].function)


def _both(low: Array, high: Array) -> Words:
    return np.stack(np.broadcast_arrays(low, high)).view(np.uint32)


def _mixed(result: str, *, upper_half: bool = False) -> VecOp:
    """Of three sources, each an f32 or an f16; rounded once."""

    def function(a: Array, b: Array, c: Array) -> Array:
        return a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)

    return VecOp(result, (MIXED,) * 3, function, upper_half=upper_half)


PACKED_OPS: dict[str, VecOp] = {
    **{
        f"v_pk_{name}_{kind}": _twice({**INTEGER_OPS, **FLOAT_OPS}[f"v_{name}_{kind}"])
        for kind, names in _TWICE.items()
        for name in names
    },
    "v_pk_minimum3_f16": _extreme3("v_minimum3_f32"),
    "v_pk_maximum3_f16": _extreme3("v_maximum3_f32"),
    "v_pk_mov_b32": VecOp("2u32", (PICKED, PICKED), _both, copies=True),
    "v_mad_mix_f32": _mixed("f32"),
    "v_mad_mixlo_f16": _mixed("f16"),
    "v_mad_mixhi_f16": _mixed("f16", upper_half=True),
}

_DOT = re.compile(r"v_dot([248])(c)?_(f32|i32|u32)_(f16|bf16|i16|u16|i8|u8|i4|u4)$")
_UNKNOWN_OF_DOT = ("neg", "neg_hi", "opsel", "abs", "omod")


def dot_op(instruction: Decoded) -> VecOp | None:
    """The row of a dot product, or None."""
    match = _DOT.match(instruction.name)
    if match is None:
        return None
    fields, kind = instruction.fields, match[3]
    if instruction.variant not in ("", "LIT") or any(map(fields.get, _UNKNOWN_OF_DOT)):
        raise unsupported(instruction, "modifiers")
    if kind == "f32" and fields.get("clmp"):
        raise unsupported(instruction, "clamp")
    total = partial(_total, int(match[1]), match[4])
    saturated = None if kind == "f32" else partial(total, saturates=True)
    return VecOp(kind, ("u32", "u32", kind), total, accumulates=bool(match[2]), saturated=saturated)


def _total(
    count: int, kind: str, a: Words, b: Words, start: Array, saturates: bool = False
) -> Array:
    products = (_parts(a, count, kind) * _parts(b, count, kind)).sum(axis=0)
    if start.dtype == np.float32:
        return np.asarray(products + start, np.float32)
    exact = products + start.astype(np.int64)
    if saturates:
        limits = np.iinfo(start.dtype)
        exact = np.clip(exact, limits.min, limits.max)
    return np.asarray(exact, start.dtype)


def _parts(words: Words, count: int, kind: str) -> Array:
    """The packed values of each lane, one row each: float64 or int64."""
    bits = 32 // count
    fields = [words >> np.uint32(bits * i) & np.uint32((1 << bits) - 1) for i in range(count)]
    if kind == "f16":
        return np.stack([f.astype(np.uint16).view(np.float16).astype(np.float64) for f in fields])
    if kind == "bf16":
        return np.stack([bf16_to_f32(f.astype(np.uint16)).astype(np.float64) for f in fields])
    whole = np.stack(fields).astype(np.int64)
    if kind.startswith("i"):
        half = 1 << (bits - 1)
        whole = (whole ^ half) - half
    return whole

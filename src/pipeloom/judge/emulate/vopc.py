"""Vector comparisons (VOPC): one bit per lane into VCC, an SGPR pair or EXEC."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipeloom.array_kinds import Array, Flags
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.operands import all_registers, unsupported
from pipeloom.judge.emulate.register_numbers import EXEC, LANES, VCC, register_bits
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.valu import every_lane
from pipeloom.judge.emulate.vector_values import vector_sources
from pipeloom.judge.emulate.wave import Wave

Relation = Callable[[Array, Array], Flags]


def _unordered(a: Array, b: Array) -> Flags:
    return np.isnan(a) | np.isnan(b)


_RELATIONS: dict[str, Relation] = {
    "f": lambda a, b: np.zeros(LANES, np.bool_),
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "lg": lambda a, b: (a != b) & ~_unordered(a, b),
    "ne": lambda a, b: a != b,
    "ge": lambda a, b: a >= b,
    "o": lambda a, b: ~_unordered(a, b),
    "u": _unordered,
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: (a == b) | _unordered(a, b),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: a != b,
    "nlt": lambda a, b: ~(a < b),
    "tru": lambda a, b: np.ones(LANES, np.bool_),
    "t": lambda a, b: np.ones(LANES, np.bool_),
}


def build(instruction: Decoded) -> MicroOp | None:
    """The step of a v_cmp or v_cmpx instruction, or None."""
    parts = instruction.name.split("_")
    if parts[0] != "v" or parts[1] not in ("cmp", "cmpx"):
        return None
    to_exec = parts[1] == "cmpx"
    relation, kind = parts[2], parts[3]
    if relation == "class":
        if kind not in _CLASS_BITS:
            raise unsupported(instruction)
        compare, other = _class_test(*_CLASS_BITS[kind]), "u32"
    else:
        compare, other = _RELATIONS[relation], kind
    sources = vector_sources(instruction, (kind, other))
    first, second = (source.read for source in sources)
    target = _mask_target(instruction)

    def run(wave: Wave) -> None:
        mask = every_lane(compare(first(wave), second(wave))) & wave.exec_mask
        wave.write_mask(target, mask)
        if to_exec:
            wave.set_exec(mask)

    writes = register_bits(target, 2)
    if to_exec:
        writes |= register_bits(EXEC, 2)
    return MicroOp(instruction, run, all_registers(sources), writes)


def _mask_target(instruction: Decoded) -> int:
    if instruction.encoding == "VOP3":
        return instruction.fields["vdst"]
    if instruction.variant.startswith("SDWA") and instruction.fields.get("sd"):
        return instruction.fields["sdst"]
    return VCC


_CLASS_BITS = {"f16": ("u2", 10, 5), "f32": ("u4", 23, 8), "f64": ("u8", 52, 11)}
"""Unsigned type, mantissa bits and exponent bits of the formats that v_cmp_class knows."""


def _class_test(word: str, mantissa: int, exponent: int) -> Relation:
    """v_cmp_class: ten bits, from signalling NaN to +infinity."""
    top = ((1 << exponent) - 1) << mantissa

    def in_class(value: Array, wanted: Array) -> Flags:
        bits = np.ascontiguousarray(value).view(word).astype(np.uint64)
        negative = bits >> np.uint64(mantissa + exponent) == 1
        magnitude = bits & np.uint64((1 << (mantissa + exponent)) - 1)
        nan, infinite, zero = magnitude > top, magnitude == top, magnitude == 0
        quiet = (bits >> np.uint64(mantissa - 1) & np.uint64(1)) == 1
        denormal = (magnitude < 1 << mantissa) & ~zero
        normal = ~(nan | infinite | zero | denormal)
        classes = [
            nan & ~quiet,
            nan & quiet,
            negative & infinite,
            negative & normal,
            negative & denormal,
            negative & zero,
            ~negative & zero,
            ~negative & denormal,
            ~negative & normal,
            ~negative & infinite,
        ]
        result = np.zeros(LANES, np.bool_)
        for bit, member in enumerate(classes):
            result |= member & (wanted >> bit & 1 == 1)
        return result

    return in_class

"""Register tiles of which a lane has patches: rows that follow each other, some columns of each.

They are what is turned on its way to LDS: a lane's patch becomes runs of its columns.

    loaded      row 0: (a0 b0)         row 1: (a1 b1)           a register each
    joined      column a: (a0 a1)      column b: (b0 b1)        v_perm_b32, of both, by halves
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.program import Resource
from pipeloom.program.across_rows import patch_rows
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Register

Coordinates = NDArray[Any]

HALVES = 0x05040100, 0x07060302
"""Bytes of two registers, the lower halves and the upper ones; the second operand has the first
four (CDNA3 ISA, "V_PERM_B32")."""
PAIR = 2
"""Elements of a register."""


def patches(
    resource: Resource, wide: int, high: int, slot: Coordinates, lane: Coordinates
) -> Coordinates:
    """The element in each slot of each lane: patches are row-major over lanes, and inside."""
    shape = resource.type.shape
    each = WAVE_LANES * high * wide
    if len(shape) != 2 or shape[0] % high or shape[1] % wide or resource.type.elements % each:
        raise EmitError(
            f"{resource.name} is {resource.type}, which {WAVE_LANES} lanes do not share in patches "
            f"of {high} x {wide}",
            hint="use whole patches, as many as there are lanes",
            field=resource.name,
        )
    patch, within = np.divmod(slot, high * wide)
    row, column = np.divmod(patch * WAVE_LANES + lane, shape[1] // wide)
    down, along = np.divmod(within, wide)
    return np.stack([row * high + down, column * wide + along], axis=-1)


def column_runs(resource: Resource, slots: int) -> list[list[int]]:
    """The slots of each column of each patch of a lane, from its first row on."""
    high = patch_rows(resource.layout)
    return [
        [patch + row * PAIR + column for row in range(high)]
        for patch in range(0, slots, high * PAIR)
        for column in range(PAIR)
    ]


def joined(
    code: Code, registers: Register, run: Sequence[int], into: Register, halves: Sequence[Register]
) -> None:
    """A column's elements in registers of their own, two by two."""
    for word in range(into.count):
        first, second = (registers.part(run[PAIR * word + n] // PAIR) for n in range(PAIR))
        code("v_perm_b32", into.part(word), second, first, halves[run[0] % PAIR])

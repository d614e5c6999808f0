"""Reads across the rows of a tile in LDS: what is neighbours there is columns of the operand.

16 lanes read a block of 16 elements by as many rows as 64 bits hold, 64 bits each, and exchange
them (``ds_read_b64_tr_b16``, ``_b8``; CDNA4 ISA): lane l of them has column l, all its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.target import Target
from pipeloom.program import Resource
from pipeloom.program.across_rows import BITS, LANES, VERB, comes_transposed
from pipeloom.write.faults import EmitError
from pipeloom.write.lower.linear import Table
from pipeloom.write.lower.register_tiles import RegisterTile, k_axis, row_axis


def read_across(target: Target, resource: Resource) -> str | None:
    """The instruction that brings a tile's elements; None where they come one by one."""
    bits, layout = resource.type.dtype.bits, resource.layout
    return f"{VERB}{bits}" if layout and comes_transposed(layout, bits, target) else None


def across_reads(
    tile: RegisterTile, slots: Sequence[int], what: str
) -> Iterator[tuple[list[int], Table]]:
    """By read: the slots that it fills, and the element at which each lane's 64 bits begin."""
    deep, across = k_axis(tile.resource), row_axis(tile.resource)
    rows = BITS // tile.resource.type.dtype.bits
    per_row = LANES // rows
    lane = np.arange(WAVE_LANES)
    leader = lane - lane % LANES
    for at in range(0, len(slots), rows):
        run = list(slots[at : at + rows])
        held = np.stack([tile.coordinates[slot] for slot in run])
        source = held[0, leader].copy()
        wanted = np.repeat(source[None], rows, axis=0)
        wanted[..., deep] += np.arange(rows)[:, None]
        wanted[..., across] += lane % LANES
        if not np.array_equal(held, wanted):
            raise EmitError(
                f"{what}: no transposed read brings the lanes what they hold",
                hint="use an operand layout in blocks of 16 or 32 rows",
                field=what,
            )
        source[:, deep] += lane % LANES // per_row
        source[:, across] += lane % per_row * rows
        yield run, source

"""Boxes of a copy: the same elements there and here, wave by wave."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeloom.program import Work
from pipeloom.program.tiles import Box
from pipeloom.write.faults import EmitError
from pipeloom.write.lower.context import Context
from pipeloom.write.lower.linear import Table
from pipeloom.write.lower.register_tiles import WORD_BITS, RegisterTile


def shifted(coordinates: Table, here: Sequence[Box], there: Sequence[Box]) -> Table:
    """By wave: coordinates of one box as those of the same elements in another."""
    moves = np.array(
        [[q[0] - p[0] for p, q in zip(a, b, strict=True)] for a, b in zip(here, there, strict=True)]
    )
    return np.asarray(coordinates + moves[:, None, :])


def axes_of(table: Table) -> list[Table]:
    """By dimension."""
    return list(np.moveaxis(table, -1, 0))


def require_same_shape(work: Work, a: Sequence[Box], b: Sequence[Box]) -> None:
    """Raise unless a copy moves boxes to boxes of their shape."""
    for here, there in zip(a, b, strict=True):
        if [q - p for p, q in here] != [q - p for p, q in there]:
            raise EmitError(
                f"{work.label} copies {here} to {there}, which has another shape",
                hint="a copy moves a box to a box of its shape, dimensions in the same order",
                field=work.label,
            )


def words_of(tile: RegisterTile, run: Sequence[int], work: Work) -> int:
    """Registers of the slots that an instruction moves; raises where they fill none."""
    bits = len(run) * tile.bits
    if bits % WORD_BITS:
        raise EmitError(
            f"{work.label} moves {len(run)} element(s) of {tile.resource.type.dtype} per lane, "
            "less than a register",
            hint="choose a layout in which neighbours of a lane fill a register",
            field=tile.resource.name,
        )
    return bits // WORD_BITS


def require_same_type(context: Context, work: Work) -> None:
    """Raise unless a copy moves elements as they are."""
    there, here = context.type_of(work.reads[0]).dtype, context.type_of(work.writes[0]).dtype
    if there != here:
        raise EmitError(
            f"{work.label} copies {there} to {here}",
            hint="a copy moves bits; conversions are ops (convert)",
            field=work.label,
        )

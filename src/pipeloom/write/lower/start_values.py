"""Registers that hold a number before the first step."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pipeloom.program import Group, Resource, Work
from pipeloom.write.code import Code
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Bank
from pipeloom.write.lower.context import Context, Starts, place_name
from pipeloom.write.lower.frame import Write
from pipeloom.write.lower.partial import check_start
from pipeloom.write.lower.templates import float_bits

SMALL = range(65)
"""Numbers that a move to an accumulation register takes without a literal."""


def plan_start(context: Context, group: Group, resource: Resource) -> Iterator[Write]:
    """What fills a resource's copies, if its group touches it."""
    touched = any(
        access.resource == resource.name
        for _, _, step in group.steps()
        if isinstance(step, Work)
        for access in step.accesses
    )
    if not touched:
        return
    tile = context.tiles.get(resource.name)
    if tile is None or tile.pack > 1:
        raise EmitError(
            f"{resource.name} starts at {resource.start}, which only 32-bit registers can",
            hint="store a start value with a step of its own",
            field=resource.name,
        )
    start = float(resource.start or 0.0)
    bits = int(start) & 0xFFFFFFFF if resource.type.dtype.is_integer else float_bits(start)
    check_start(resource)
    for copy in range(resource.copies):
        place = place_name(resource.name, copy)
        context.frame.touch(place, resource.type.whole, writes=True)
        context.starts.begin(place, tile.registers, zero=bits == 0)
        yield partial(_fill, context, context.starts, place, bits)


def _fill(context: Context, starts: Starts, name: str, bits: int, code: Code) -> None:
    needed, frame = starts.needed(name), context.frame
    if not needed:
        return
    code.comment(f"{name} starts at {bits:#x}")
    moved = frame[frame.work(0)]
    if bits not in SMALL:
        code("v_mov_b32", moved, bits)
    for i in needed:
        place = frame[name].part(i)
        if place.bank is Bank.ACCUMULATOR:
            code("v_accvgpr_write_b32", place, bits if bits in SMALL else moved)
        else:
            code("s_mov_b32" if place.bank is Bank.SCALAR else "v_mov_b32", place, bits)

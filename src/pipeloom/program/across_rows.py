"""Which reads across the rows of a tile come transposed, and which element by element."""

from __future__ import annotations

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.target import LOAD_BYTES, Target
from pipeloom.program.program import Program
from pipeloom.program.resources import Layout

VERB = "ds_read_b64_tr_b"
LANES, BITS = 16, 64
"""Lanes that exchange what they read, and what each reads (CDNA4 ISA)."""
QUAD = 4
"""Elements of a lane that follow each other in a matrix result, or an operand beside one."""


def goes_across(layout: Layout | None) -> bool:
    """Whether it is of a matrix operand whose rows in memory are columns of the product, or of what
    lies as a result of such an operand does: a lane's runs go from row to row."""
    numbers = {} if layout is None else dict(layout.numbers)
    turned = "flip" in numbers and "only" not in numbers
    return layout is not None and (turned or (layout.kind == "operand" and "axis" in numbers))


def patch_rows(layout: Layout | None) -> int:
    """Rows of a lane's patch of a tile that is turned on its way to LDS; 0 of any other."""
    return dict(layout.numbers).get("rows", 0) if layout and layout.kind == "lanes" else 0


def turned_tiles(program: Program) -> frozenset[str]:
    """The tiles of LDS whose columns lie as rows: what is written to them are patches."""
    patches = {r.name for r in program.resources if patch_rows(r.layout)}
    copies = (work for _, _, work in program.works() if work.is_copy)
    return frozenset(w.writes[0].resource for w in copies if w.reads[0].resource in patches)


def comes_transposed(layout: Layout, bits: int, target: Target) -> bool:
    """Whether a read of LDS across rows brings 64 bits of a lane at once, of a run of K or of
    several that one instruction takes.

    Args:
        layout: Of a matrix operand, in registers.
        bits: Of an element.
        target: The chip, which may have no such read.
    """
    numbers = dict(layout.numbers)
    quads = "permuted" in numbers or layout.kind == "accumulator"
    run = numbers.get("run", 0) or (QUAD if quads else LOAD_BYTES * 8 // bits)
    together = numbers.get("depth", 0) * numbers.get("side", 0) // WAVE_LANES  # of an instruction
    known = f"{VERB}{bits}" in target.extra_instructions
    return known and max(run, together) * bits >= BITS

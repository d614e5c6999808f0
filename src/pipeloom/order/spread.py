"""How register tiles lie over lanes: schemes, what of a scheme remains of a part, and their counts.

The schemes are those of docs/program.md. Here they are *projected*: where an op drops a dimension
(a row maximum) or lacks one (a row factor), its tile lies where the full tile's rows lie, so that
no step has to move anything between lanes but a reduction itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, prod

import numpy as np

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.dtypes import DType
from pipeloom.machine.matrix_ops import MatrixOp
from pipeloom.machine.target import LOAD_BYTES, REGISTER_BYTES
from pipeloom.program.blocked_matrices import blocked_matrix
from pipeloom.program.nodes import Node
from pipeloom.program.resources import Layout

RUN = 4
"""Consecutive elements of a lane in a matrix result."""
CODES = 4
"""Block scales of a register, of which an instruction's op_sel picks one."""
BLOCK = 16
"""Columns of a matrix result of which a row's lanes have a run each."""

UNIFORM = Layout("uniform")


def accumulator(side: int, *, flip: bool = False) -> Layout:
    """A matrix result; ``flip``: lanes go by its last dimension."""
    return Layout("accumulator", (("side", side), ("flip", 1)) if flip else (("side", side),))


def operand(
    op: MatrixOp,
    dims: Sequence[str],
    depth: str,
    *,
    permuted: bool = False,
    short: bool = False,
    run: int = 0,
) -> Layout:
    """An input of a matrix instruction whose K is ``depth``.

    ``permuted``: K in the order in which a matrix result has it, because the other input is one.
    ``short``: a lane's run of K is what one instruction takes. ``run``: it has so many elements,
    whatever their type: what an input is computed of lies like it.
    """
    numbers = [("side", op.m), ("depth", op.k)]
    if dims[-1] != depth:
        numbers.append(("axis", dims.index(depth)))
    if run:
        numbers.append(("run", run))
    elif permuted:
        numbers.append(("permuted", 1))
    elif short:
        numbers.append(("short", 1))
    return Layout("operand", tuple(numbers))


def run_of(op: MatrixOp, length: int, dtype: DType) -> int:
    """Elements of a lane's run of K, of ``length`` elements of the type that is multiplied: 16
    bytes, or what one instruction takes where K has no room for them."""
    blocks = WAVE_LANES // op.m
    run = LOAD_BYTES * 8 // dtype.bits
    return op.k // blocks if length % (blocks * run) else run


def run_depth(layout: Layout) -> int:
    """How far along K the runs of all lanes of an ``operand`` go, where it says how long they are;
    else 0."""
    numbers = dict(layout.numbers)
    return numbers.get("run", 0) * WAVE_LANES // numbers["side"]


def grouped(layout: Layout, dtype: DType) -> Layout:
    """The same, of a type whose codes cover several elements of K: a lane has each code once."""
    if dtype.covers == 1 or not may_group(layout):
        return layout
    return Layout(layout.kind, (*layout.numbers, ("group", dtype.covers)))


def may_group(layout: Layout) -> bool:
    """Whether lanes have runs of whole rows, of which some elements may share a code."""
    numbers = dict(layout.numbers).keys()
    if layout.kind == "accumulator":
        return "only" not in numbers
    return layout.kind in ("operand", "grid") or (
        layout.kind == "lanes" and "spread" not in numbers
    )


def ungrouped(layout: Layout) -> Layout:
    """The same, of a type of which each element has a code of its own."""
    return Layout(layout.kind, tuple(n for n in layout.numbers if n[0] != "group"))


def scales(op: MatrixOp, node: Node, shape: Sequence[int]) -> Layout:
    """Block scales of an input of a matrix instruction: a lane has one of each, in a register, or
    four of them where they follow each other in memory, by blocks of rows and steps of K."""
    numbers = (("side", op.m), ("depth", op.k))
    matrix = blocked_matrix(node)
    lane, covers = np.arange(WAVE_LANES), node.type.dtype.covers
    for rows in (2, 1, 4) if matrix is not None else ():
        assert matrix is not None
        steps = CODES // rows
        step, block = np.divmod(np.arange(CODES)[:, None], rows)
        row, place = matrix.place(op.m * block + lane % op.m, op.k * step + covers * (lane // op.m))
        first = place[0] // covers
        together = np.array_equal(place // covers, first + np.arange(CODES)[:, None])
        whole = shape[0] % (op.m * rows) == 0 and shape[1] % (op.k * steps) == 0
        if together and whole and not (first % CODES).any() and not (row - row[0]).any():
            return Layout("scales", (*numbers, ("rows", rows), ("steps", steps)))
    return Layout("scales", numbers)


def codes_together(layout: Layout) -> int:
    """Block scales of a lane that share a register."""
    numbers = dict(layout.numbers)
    return numbers.get("rows", 1) * numbers.get("steps", 1)


def lanes(shape: Sequence[int], dtype: DType) -> Layout:
    """Row-major over lanes, as many elements at a time as the tile and 16 bytes allow."""
    total = prod(shape)
    vector = max(1, LOAD_BYTES * 8 // max(dtype.bits, 8))
    while vector > 1 and (total % (WAVE_LANES * vector) or shape[-1] % vector):
        vector //= 2
    return Layout("lanes", (("vector", vector),))


def lanes_of_grid(layout: Layout) -> int:
    """Lanes that have different elements of a tile in a ``grid``; in any other scheme one."""
    return prod(number for name, number in layout.numbers if name.startswith("lanes"))


def project(
    layout: Layout, dims: Sequence[str], sizes: Mapping[str, int], kept: Sequence[str]
) -> Layout | None:
    """Where a tile with only the dimensions ``kept`` lies; None if no scheme says it."""
    if prod(sizes[d] for d in kept) == 1:
        return UNIFORM
    numbers = dict(layout.numbers)
    if layout.kind == "accumulator":
        if len(dims) == 1:
            return layout if tuple(kept) == tuple(dims) else None
        by_lane, in_run = reversed(dims) if numbers.get("flip") else dims
        if len(kept) == 2:
            return accumulator(numbers["side"], flip=tuple(kept) != (by_lane, in_run))
        only = 0 if kept[0] == by_lane else 1
        return Layout("accumulator", (("side", numbers["side"]), ("only", only)))
    if layout.kind == "lanes":
        return _project_lanes(numbers, dims, sizes, kept)
    if layout.kind == "operand" and len(dims) == 2 and len(kept) == 1:
        if kept[0] != dims[numbers.get("axis", 1)]:  # lanes go by rows as those of a result do
            return Layout("accumulator", (("side", numbers["side"]), ("only", 0)))
        named = (n for n in layout.numbers if n[0] in ("side", "depth", "run"))
        return Layout("operand", (*named, ("only", 1)))
    return layout if tuple(kept) == tuple(dims) else None


def _project_lanes(
    numbers: Mapping[str, int], dims: Sequence[str], sizes: Mapping[str, int], kept: Sequence[str]
) -> Layout | None:
    vector, spread = numbers["vector"], numbers.get("spread", 1)
    real = [d for d in dims if sizes[d] > 1]
    stay = [d for d in kept if sizes[d] > 1]
    if [d for d in real if d in stay] != stay:
        return None  # another order
    gone = [d for d in real if d not in stay]
    if not gone:
        return Layout("lanes", tuple(numbers.items()))
    if real[len(stay) :] == gone:  # the last ones
        spread *= prod(sizes[d] for d in gone)
        return (
            Layout("lanes", (("vector", vector), ("spread", spread)))
            if not (spread % vector)
            else None
        )
    inner = prod(sizes[d] for d in real[real.index(gone[-1]) + 1 :])
    whole = inner % (WAVE_LANES * vector) == 0
    # Where the first ones are gone, lanes begin again with each row: several hold an element.
    again = real[: len(gone)] == gone and inner % vector == 0 and WAVE_LANES * vector % inner == 0
    if spread == 1 and (whole or again):
        return Layout("lanes", (("vector", vector),))
    return None


def per_lane(layout: Layout | None, shape: Sequence[int]) -> int:
    """Elements of the tile that one lane has, copies in other lanes included."""
    total = prod(shape)
    if layout is None or layout.kind == "uniform":
        return 1
    numbers = dict(layout.numbers)
    if layout.kind == "accumulator" and "only" in numbers:
        if numbers["only"] == 0:
            return ceil(total / numbers["side"])
        return RUN * ceil(total / (RUN * WAVE_LANES // numbers["side"]))
    if layout.kind == "accumulator" and "group" in numbers:
        side, codes = numbers["side"], ceil(shape[-1] / numbers["group"])
        rows = total // shape[-1]
        return codes * (rows * side // WAVE_LANES if "flip" in numbers else rows // side)
    if layout.kind == "scales":
        return total // (numbers["side"] * numbers["depth"])
    if layout.kind == "operand":
        if "only" in numbers:  # K alone: the lanes of every row have it
            total *= numbers["side"]
        if "group" not in numbers:
            return ceil(total / WAVE_LANES)
        length, run, group = shape[-1], numbers["run"], numbers["group"]
        deep, rows = run_depth(layout), total // length // numbers["side"]
        if group >= deep:
            return rows * ceil(length / group)
        return rows * (length // deep) * ceil(run / group)
    if layout.kind == "grid":
        held = total // lanes_of_grid(layout)
        apart = numbers.get(f"lanes{len(shape) - 1}", 1)
        columns = shape[-1] // apart
        return held // columns * ceil(columns / max(1, numbers.get("group", 1) // apart))
    if layout.kind == "lanes" and "group" in numbers:
        vector, group = numbers["vector"], numbers["group"]
        steps = ceil(total / (WAVE_LANES * vector))
        return max(1, steps // max(1, group // (WAVE_LANES * vector))) * max(1, vector // group)
    if layout.kind == "lanes":
        spread, vector = numbers.get("spread", 1), numbers["vector"]
        groups = ceil(total * spread / (WAVE_LANES * vector))
        return groups * max(1, vector // spread)
    return ceil(total / WAVE_LANES)


def registers(layout: Layout | None, shape: Sequence[int], dtype: DType) -> int:
    """Registers per lane; truth values take one each, and block scales that lie apart."""
    if layout is not None and layout.kind == "scales":
        return per_lane(layout, shape) // codes_together(layout)
    single = layout is not None and "group" in dict(layout.numbers)
    whole = dtype.is_bool or single
    bits = 32 if whole else dtype.bits
    return ceil(per_lane(layout, shape) * bits / (8 * REGISTER_BYTES))


def memory_accesses(layout: Layout | None, shape: Sequence[int], dtype: DType) -> tuple[int, int]:
    """Memory instructions per wave that fill or drain the tile, and bytes per lane of each."""
    bits = max(dtype.bits, 8)
    if layout is None or layout.kind == "uniform":
        return 1, ceil(bits / 8)
    numbers = dict(layout.numbers)
    if layout.kind == "scales":
        return registers(layout, shape, dtype), codes_together(layout)
    if layout.kind == "operand" and "run" in numbers:
        if "group" in numbers:
            return per_lane(layout, shape), ceil(dtype.bits / 8)
        each = numbers["run"] * dtype.bits // 8
        runs = per_lane(layout, shape) // numbers["run"]
        return runs * ceil(each / LOAD_BYTES), min(each, LOAD_BYTES)
    if layout.kind == "operand":
        each = numbers["side"] * numbers["depth"] * dtype.bits // (8 * WAVE_LANES)
        axis = numbers.get("axis", len(shape) - 1)
        deep = shape[axis] // numbers["depth"]
        rows = prod(shape) // (shape[axis] * numbers["side"])
        once = each if deep * each % LOAD_BYTES else LOAD_BYTES  # runs of one instruction, or more
        return rows * deep * each // once, once
    count = per_lane(layout, shape)
    run = 1
    if layout.kind == "lanes" and not {"spread", "group"} & numbers.keys():
        run = min(numbers["vector"], LOAD_BYTES * 8 // bits)
    elif layout.kind == "accumulator" and not (
        numbers.get("only") == 0 or {"flip", "group"} & numbers.keys()
    ):
        run = min(RUN, LOAD_BYTES * 8 // bits)
    return ceil(count / run), ceil(run * bits / 8)


def block_lanes(layout: Layout) -> int:
    """Lanes that share a block of columns, of which each lane has one number (``group``)."""
    numbers = dict(layout.numbers)
    if layout.kind == "accumulator":
        return WAVE_LANES // numbers["side"]
    dealt = max((n for name, n in numbers.items() if name.startswith("lanes")), default=WAVE_LANES)
    return min(dealt, max(1, numbers["group"] // numbers.get("vector", 1)))


def two_blocks_at_once(layout: Layout, shape: Sequence[int], dtype: DType) -> bool:
    """Whether a store may take a lane's columns of two blocks: writers can make them neighbours.

    Fewer instructions are stated than a writer takes who does not; waits only get stricter by that.
    """
    whole = layout == accumulator(BLOCK) and shape[-1] % (2 * BLOCK) == 0
    return whole and dtype.bits * 2 * RUN == LOAD_BYTES * 8


def shared_lanes(layout: Layout, shape: Sequence[int], reduced: Layout) -> int:
    """Lanes that must combine for one element when a tile is reduced: each step halves them."""
    numbers, left = dict(layout.numbers), dict(reduced.numbers)
    if layout.kind == "grid":
        return lanes_of_grid(layout) // lanes_of_grid(reduced)
    if layout.kind in ("accumulator", "operand"):
        side = numbers["side"]
        if reduced.kind == "uniform":
            return WAVE_LANES
        if "partial" in left:
            return 1
        return WAVE_LANES // side if left.get("only", 0) == 0 else side
    if reduced.kind == "uniform":
        return WAVE_LANES
    return max(1, min(WAVE_LANES, left.get("spread", 1) // numbers.get("vector", 1)))

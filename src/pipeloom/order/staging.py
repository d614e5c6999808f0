"""How tiles come to LDS: as they are, or by way of registers, so that it has K in a row.

A matrix instruction takes elements that follow each other along K. Where they are rows of memory
apart, and the chip has no read that brings columns, each wave would read element by element and
join them. Instead the waves load a part of the tile each, once, and write runs of K to LDS:

    load        a lane has a patch: some rows, two columns
    write       pairs of rows joined, two instructions for two registers; a run of K per column
    read        as any operand whose rows are K
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from pipeloom.errors import ConfigError
from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.target import REGISTER_BYTES, Target, Traffic
from pipeloom.order.layouts import Layouts, is_loaded
from pipeloom.order.matrix_choice import Product
from pipeloom.order.roles import WaveGroup
from pipeloom.order.shares import Piece, Shares
from pipeloom.order.spread import memory_accesses, per_lane
from pipeloom.order.tasks import Lowered, Place, Task, Touch
from pipeloom.program.across_rows import QUAD, comes_transposed, goes_across, patch_rows
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.resources import Layout
from pipeloom.program.steps import Issue, Unit
from pipeloom.program.tiles import Box

PAIR = 2
"""Elements of a register, of those that are joined."""


LDS = Layout("lds")
"""Stands for the layout of what lies in LDS, which writers choose."""


def require_stageable(meaning: Meaning, node: Node, layouts: Layouts) -> None:
    """Raise unless a node's tile can be loaded to LDS, or is a result of the loop that some product
    takes otherwise than it lies."""
    if node.align < REGISTER_BYTES:
        raise ConfigError(
            f"{meaning.name}: {node.name!r} is staged, and aligned to {node.align} bytes",
            hint=f"loads to LDS need {REGISTER_BYTES}: pad its rows, or leave .staged() off "
            f"{node.name!r} and multiply what is computed of it",
            field=node.name,
        )
    again = any(node.name in (name, *meaning[name].uses) for _, name in layouts.through)
    result = node.kind is NodeKind.OP and node.region is Region.LOOP
    if not (is_loaded(node) or (result and again)):
        raise ConfigError(
            f"{meaning.name}: {node.name!r} is computed, and no product takes it in a layout "
            "that it does not lie in",
            hint=f"leave .staged() off {node.name!r}",
            field=node.name,
        )


def load_width(size: int, lanes: int, widest: int) -> int:
    """Bytes per lane of a load of ``size`` bytes to LDS: the widest, but for small pieces that do
    not fill it."""
    narrow = lanes * REGISTER_BYTES
    if size < narrow:
        return REGISTER_BYTES
    uneven = size % (narrow * widest // REGISTER_BYTES)
    return REGISTER_BYTES if uneven and size % narrow == 0 else widest


def fetch_sizes(
    node: Node,
    layout: Layout,
    shape: Sequence[int],
    target: Target,
    staged: bool,
    turned: bool,
) -> tuple[int, int]:
    """Reads or loads of a wave that bring its part of a tile, and bytes per lane of each: across
    rows, transposed ones or one element, unless LDS has it turned."""
    count, width = memory_accesses(layout, shape, node.type.dtype)
    bits = node.type.dtype.bits
    whole = staged and comes_transposed(layout, bits, target)
    across = 2 * REGISTER_BYTES if whole else bits // 8
    permuted = "permuted" in dict(layout.numbers)
    if goes_across(layout) and not turned and (not permuted or across <= REGISTER_BYTES):
        count, width = count * width // across, across
    if node.align < REGISTER_BYTES and bits < 8 * REGISTER_BYTES:
        count, width = per_lane(layout, shape), max(bits // 8, 1)
    return count, width


def staged_part(
    tiles: Mapping[tuple[str, Layout | None, Shares | None, Piece], str],
    base: str,
    where: Layout | None,
    piece: Piece,
    whole: Box,
    boxes: Sequence[Box],
) -> Touch:
    """What is read in LDS of a part of a staged value; raises where waves cut that otherwise."""
    found = tiles.get((base, where, None, piece))
    if found is None:
        raise ConfigError(
            f"waves divide what is computed of {base!r} along other dimensions than {base!r}",
            hint="use another number of waves, 1 always works",
            field="waves",
        )
    return Touch(found, base, tuple(relative(box, whole) for box in boxes))


def uncut_piece(meaning: Meaning, shares: Shares, view: Node) -> Piece:
    """The one piece of the tile that a view is of; raises where there are several."""
    there = meaning.loaded(view.name)
    (piece, *others) = shares.pieces(there.type.dims)
    if others:
        raise ConfigError(
            f"{meaning.name}: view {view.name!r} is of {there.name!r}, whose tile comes in pieces",
            hint="pass quadrants=1",
            field=view.name,
        )
    return piece


def turned(
    meaning: Meaning,
    staged: Collection[str],
    products: Mapping[str, Product],
    layouts: Layouts,
    shares: Shares,
    target: Target,
) -> frozenset[str]:
    """The staged streams that every user multiplies across their rows, one by one as read; of loops
    that compute on vectors, to which joining them is dear."""
    ops = [n for n in meaning.nodes if n.kind is NodeKind.OP and n.region is Region.LOOP]
    if all(node.name in products for node in ops):
        return frozenset()

    def single(node: Node, user: Node) -> bool:
        layout = layouts.operands.get((user.name, node.name))
        bits = node.type.dtype.bits
        across = layout is not None and "permuted" in dict(layout.numbers) and goes_across(layout)
        return across and layout is not None and not comes_transposed(layout, bits, target)

    def every(node: Node) -> bool:
        users = [user for user in meaning.nodes if node.name in user.operands]
        kind = node.kind is NodeKind.STREAM and PAIR * node.type.dtype.bits == 8 * REGISTER_BYTES
        return kind and len(node.type.dims) == PAIR and all(single(node, user) for user in users)

    def even(node: Node) -> bool:
        pieces = shares.pieces(node.type.dims)
        boxes = (shares.whole(node.type.dims, piece) for piece in pieces)
        shapes = {tuple(stop - start for start, stop in box) for box in boxes}
        return all(patches(shape, shares.waves)[1] for shape in shapes)

    return frozenset(name for name in staged if every(meaning[name]) and even(meaning[name]))


def patches(shape: Sequence[int], waves: int) -> tuple[Layout, tuple[int, ...]]:
    """How a wave's lanes share its rows of a tile in patches, and how much a wave has: nothing
    where they do not share it evenly."""
    rows, columns = shape
    mine = rows // waves, columns
    for high in (QUAD, PAIR):
        even = rows % (waves * high) == 0 and columns % PAIR == 0
        if even and prod(mine) % (WAVE_LANES * high * PAIR) == 0:
            return Layout("lanes", (("vector", PAIR), ("rows", high))), mine
    return Layout("lanes"), ()


def turning_tasks(
    name: str,
    node: Node,
    piece: Piece,
    whole: Box,
    held: Place,
    into: Place,
    loading: WaveGroup,
    target: Target,
) -> tuple[Task, Task]:
    """The load of each wave's rows to ``held``, and their write to LDS.

    Args:
        name: Of the piece of the tile.
        node: The stream.
        piece: Which piece of its tile.
        whole: Where the piece lies in the tile.
        held: The registers of a wave.
        into: The place in LDS.
        loading: The waves.
        target: The chip.
    """
    rows, columns = held.type.shape
    inside = tuple(((n * rows, n * rows + rows), (0, columns)) for n in range(len(loading.waves)))
    boxes = tuple(
        tuple((a + p, b + p) for (a, b), (p, _) in zip(box, whole, strict=True)) for box in inside
    )
    high = patch_rows(held.layout)
    loads, width = memory_accesses(held.layout, held.type.shape, held.type.dtype)
    runs, run_bytes = held.registers * PAIR // high, high * REGISTER_BYTES // PAIR
    joins = Issue(Unit.VECTOR, held.registers)

    def task(verb: str, read: Touch, write: Touch, traffic: Traffic, *issues: Issue) -> Task:
        return Task(
            label=f"{verb} {name}",
            node=node.name,
            region=node.region,
            group=loading.name,
            piece=piece,
            parts=boxes,
            reads=(read,),
            writes=(write,),
            is_copy=True,
            counter=target.counting(traffic).name,
            entries=issues[0].count,
            issues=issues,
        )

    here = Touch(held.name, node.name)
    return (
        task(
            "load",
            Touch(node.name, node.name, boxes),
            here,
            Traffic.GLOBAL,
            Issue(Unit.LOAD, loads, bytes=width),
        ),
        task(
            "write",
            here,
            Touch(into.name, node.name, inside),
            Traffic.LDS,
            Issue(Unit.LDS_WRITE, runs, bytes=run_bytes),
            joins,
        ),
    )


def written(
    node: Node,
    piece: Piece,
    boxes: tuple[Box, ...],
    whole: Box,
    held: Place,
    into: Place,
    computing: WaveGroup,
    target: Target,
) -> Task:
    """The write of a result's piece to LDS, from where it was computed.

    Args:
        node: The result.
        piece: Which piece of it.
        boxes: What each wave has of it.
        whole: Where the piece lies in the tile.
        held: The registers of a wave.
        into: The place in LDS.
        computing: The waves.
        target: The chip.
    """
    assert held.layout is not None
    count, width = memory_accesses(held.layout, held.type.shape, held.type.dtype)
    return Task(
        label=f"write {held.name}",
        node=node.name,
        region=node.region,
        group=computing.name,
        piece=piece,
        parts=boxes,
        reads=(Touch(held.name, node.name),),
        writes=(Touch(into.name, node.name, tuple(relative(box, whole) for box in boxes)),),
        is_copy=True,
        counter=target.counting(Traffic.LDS).name,
        entries=count,
        issues=(Issue(Unit.LDS_WRITE, count, bytes=width),),
    )


def relative(box: Box, within: Box) -> Box:
    """A box, counted from where another begins."""
    return tuple((a - p, b - p) for (a, b), (p, _) in zip(box, within, strict=True))


def turns(lowered: Lowered, task: Task) -> bool:
    """Whether a task loads what is written to LDS, or writes it."""
    if task.unit is Unit.LDS_WRITE:
        return is_loaded(lowered.meaning[task.node])
    place = lowered.place(task.writes[0].place) if task.unit is Unit.LOAD else None
    return place is not None and patch_rows(place.layout) > 0

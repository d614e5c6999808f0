"""Outputs that are added to what their arrays hold: what they mean, and that nothing counts twice.

An element may be added to by any number of workgroups, in any order, but by one wave of each, once.
Sums are those of f32: where they round, launches may differ in the last places, and so do bounds of
what is right.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeloom.array_kinds import Array
from pipeloom.errors import GraphError, StructureError
from pipeloom.machine.dtypes import F32
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.steps import Work
from pipeloom.program.tiles import Box
from pipeloom.program.vocabulary import VOCABULARY, Reduce

if TYPE_CHECKING:
    from pipeloom.program.meaning import Meaning
    from pipeloom.program.program import Program, Section


UNIT = 2.0**-24
"""Half a unit in the last place of f32."""
HELD = np.dtype([(name, np.float64) for name in ("low", "high", "size", "terms", "rough", "open")])
"""The least and the most of a value; and of what is added up the sizes of finite terms, how many
there are, how many are no whole numbers, and how many are not one number for sure."""
EXACT = 2.0**24
"""Whole numbers below are f32, and so are their sums."""


def check_added(meaning: Meaning) -> None:
    """Raise for what cannot be added to: along all of the grid but what it sums, or workgroups
    would add alike."""
    for node in meaning.nodes:
        if node.adds and (node.kind is not NodeKind.OUTPUT or node.type.dtype != F32):
            raise GraphError(
                f"loop {meaning.name!r}: {node.name!r}, {node.type}, is added to its array",
                hint="outputs of f32 are",
                field=node.name,
            )
        whole = {*node.type.dims, *(part_of_sum(meaning, node)[1] if node.adds else ())}
        lacks = [dim for dim in meaning.grid if dim not in whole]
        if node.adds and lacks:
            raise GraphError(
                f"loop {meaning.name!r}: {node.name!r}, {node.type}, is added to its array, and "
                f"workgroups along {lacks[0]!r} would each add it",
                hint="store outputs with other dimensions by a kernel of their own",
                field=node.name,
            )


def check_added_once(program: Program) -> None:
    """Raise where two waves, or two steps, or a step again and again, add the same element: of an
    output that is stored per iteration, in the same iteration."""
    for output in program.meaning.outputs:
        if not output.adds:
            continue
        each = output.region is Region.LOOP
        once: dict[int, list[Box]] = {}
        for group in program.groups:
            for section, _, step in group.steps():
                if isinstance(step, Work):
                    if any(a.shared for a in step.writes if a.resource == output.name):
                        raise _twice(program, output, f"{step.label!r} is shared by waves")
                    found = _boxes(output, step, len(group.waves))
                    again = section.trips is not None and not each
                    if found and (again or step.when is not None):
                        raise _twice(program, output, f"{step.label!r} is no step once for all")
                    for iteration in _iterations(program, section, step) if each else [0]:
                        once.setdefault(iteration, []).extend(found)
        for one, other in (pair for boxes in once.values() for pair in combinations(boxes, 2)):
            if all(a < q and p < b for (a, b), (p, q) in zip(one, other, strict=True)):
                raise _twice(program, output, f"{one} and {other} overlap")


def _iterations(program: Program, section: Section, step: Work) -> list[int]:
    """Those that a step has in a run of more trips of each loop than any step looks ahead, so that
    what meets at all meets there."""
    ahead = max(work.iteration or 0 for _, _, work in program.works())
    trips = {count.name: count.least + ahead + 2 for count in program.trips}
    first = section.first.at(trips) + (step.iteration or 0)
    count = 1 if section.trips is None else trips[section.trips]
    return [first + number * section.advance for number in range(count)]


def _boxes(output: Node, step: Work, waves: int) -> list[Box]:
    """What each wave adds; the same once more for each wave that does as others do."""
    found = [access for access in step.writes if access.resource == output.name]
    boxes = [box for access in found for box in access.boxes or (output.type.whole,)]
    return boxes * (waves // len(boxes)) if boxes else []


def parts_of_sums(meaning: Meaning) -> dict[str, frozenset[str]]:
    """Sums of which a workgroup may have a part, and dimensions of it: all that is made of them,
    besides factors, is added to arrays."""
    return dict(part_of_sum(meaning, node) for node in meaning.outputs if node.adds)


def part_of_sum(meaning: Meaning, output: Node) -> tuple[str, frozenset[str]]:
    """The sum that an output is, but for factors, and what it sums over; nothing if it is none."""
    used = [name for node in meaning.nodes for name in node.operands]
    node, alone = output, True
    while alone and (node is output or node.op == "mul"):
        values = [meaning[name] for name in node.uses if not meaning[name].kind.is_number]
        alone = len(values) == 1 and used.count(values[0].name) == 1
        node = values[0] if values else node
    op = VOCABULARY.get(node.op)
    if not alone or op is None or op.reduce is not Reduce.ADD or node.init is not None:
        return node.name, frozenset()
    return node.name, frozenset({*meaning.domain(node).dims} - {*node.type.dims})


def _twice(program: Program, output: Node, what: str) -> StructureError:
    return StructureError(
        f"program {program.name!r} adds to {output.name!r} more than once: {what}",
        hint="let every element be added by one step of one wave: divide all dimensions of the "
        "output among waves",
        field=output.name,
    )


def bounds_of(low: Array, high: Array) -> Array:
    """Bounds of what may be added to others, or stored alone."""
    found = np.zeros(low.shape, HELD)
    found["low"], found["high"], found["terms"] = low, high, 1
    size, lost = np.maximum(np.abs(low), np.abs(high)), np.isnan(low) & np.isnan(high)
    open_ = (low != high) & ~lost
    found["size"] = np.where(np.isfinite(size), size, 0.0)
    found["open"], found["rough"] = open_, open_ | (low != np.rint(low))
    return found


def begin(output: Array, start: Array) -> None:
    """Let an output begin as its array, and bounds of it as exactly that."""
    if output.dtype.names is None:
        output[...] = start
        return
    output[...] = bounds_of(np.asarray(start, np.float64), np.asarray(start, np.float64))


def add(output: Array, where: Any, value: Array) -> None:
    """Add a tile, or bounds of one, at some places; of a place named twice both."""
    with np.errstate(all="ignore"):
        for name in output.dtype.names or ("",):
            np.add.at(output[name] if name else output, where, value[name] if name else value)


def widened(bounds: Array) -> None:
    """Let bounds of sums hold in any order of their terms."""
    size, exact = bounds["size"], (bounds["rough"] == 0) & (bounds["size"] < EXACT)
    slack = np.where(exact, 0.0, bounds["terms"] * 2 * UNIT * size)
    with np.errstate(all="ignore"):
        low, high = bounds["low"] - slack, bounds["high"] + slack
    numbers = ~np.isnan(low) & ~np.isnan(high)
    sure = np.isnan(low) & np.isnan(high) & (bounds["open"] == 0)
    lost = ~(numbers | sure) | (size > float(F32.largest))
    bounds["low"], bounds["high"] = np.where(lost, -np.inf, low), np.where(lost, np.inf, high)

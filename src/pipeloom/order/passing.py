"""Products whose results only pass through registers: scaled, and added to what is carried.

    P = A @ B       a box of it at a time, what one matrix instruction leaves
    C += P * s      as soon as that is there; then its registers take the next box

Kept whole, P would take as many registers as C. Cut into boxes, of which a few are under way at a
time, it takes those of a few. A box's registers are filled again within the iteration, when whoever
reads it has; so they have no copies that rotate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pipeloom.order.grains import Grain, is_result
from pipeloom.order.tasks import Lowered, Place
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.vocabulary import PRODUCTS

UNDER_WAY = 128
"""Elements of a wave's boxes that have registers at a time, for each row of a box: 4 of 16 x 16, 2
of 32 x 32. A choice: a product, its result, and what is computed of it take two products' time."""


def passes(meaning: Meaning, name: str) -> bool:
    """Whether a product is computed on element by element, and ends in carried sums."""
    node = meaning[name]
    product = node.op in PRODUCTS and node.init is None and node.region is Region.LOOP
    return product and _passes(meaning, node)


def _passes(meaning: Meaning, node: Node) -> bool:
    users = [n for n in meaning.nodes if node.name in n.operands]
    return bool(users) and all(_alone(meaning, user, node) for user in users)


def _alone(meaning: Meaning, user: Node, operand: Node) -> bool:
    """Whether an op takes each element for itself, and what it gives passes, too, or is carried in
    place."""
    plain = (
        user.kind is NodeKind.OP
        and user.op not in PRODUCTS
        and user.type == operand.type
        and user.region is Region.LOOP
        and user.within is None
        and user.when is None
    )
    if not plain:
        return False
    users = [n for n in meaning.nodes if user.name in n.operands]
    carries = [n for n in users if n.kind is NodeKind.CARRY and n.name in user.operands]
    later = [n for n in users if n.kind is not NodeKind.CARRY and n.region is Region.LOOP]
    return (bool(carries) and not later) or _passes(meaning, user)


def has_passing(lowered: Lowered) -> bool:
    """Whether there are such results."""
    return any(passes(lowered.meaning, node.name) for node in lowered.meaning.nodes)


def order_of(lowered: Lowered) -> tuple[str, ...]:
    """Of products whose results pass: a box is summed up before the next one begins, and boxes
    go along the side of which a wave has less, whose fragments are kept for all of the other."""
    dims = next(n.type.dims for n in lowered.meaning.nodes if passes(lowered.meaning, n.name))
    rows, columns = (lowered.shares[dim].size // lowered.shares[dim].waves for dim in dims)
    return ("columns", "rows", "depth") if rows < columns else ("rows", "columns", "depth")


def passing(lowered: Lowered) -> dict[str, Mapping[tuple[int, ...], int]]:
    """Of each place of such a result, the number of the box at a corner: in the order of products,
    all places of the result together."""
    sides: dict[str, int] = {}
    corners: dict[str, list[tuple[tuple[int, ...], str, tuple[int, ...]]]] = {}
    for task in lowered.of(Region.LOOP):
        node = lowered.meaning[task.node]
        place = lowered.place(task.writes[0].place) if task.writes else None
        if place is None or not place.rotates or not is_result(place):
            continue
        if not passes(lowered.meaning, node.name):
            continue
        sides[place.name] = side = box_of(place).size[0]
        (top, _), (left, _) = task.parts[0][:2]
        rows, columns = place.type.shape
        corners.setdefault(node.name, []).extend(
            ((top + row, left + column), place.name, (row, column))
            for row in range(0, rows, side)
            for column in range(0, columns, side)
        )
    found: dict[str, dict[tuple[int, ...], int]] = {name: {} for name in sides}
    down = bool(corners) and order_of(lowered)[0] == "columns"
    for boxes in corners.values():
        boxes.sort(key=lambda box: box[0][::-1] if down else box[0])
        for number, (_, name, corner) in enumerate(boxes):
            found[name][corner] = number
    return {**found}


def box_of(place: Place) -> Grain:
    """What one matrix instruction leaves of a result."""
    assert place.layout is not None
    box = (dict(place.layout.numbers)["side"],) * len(place.type.dims)
    return Grain(box, box, box)


def in_turn(box: Place, number: int) -> Place:
    """The ``number``-th box of a result as one that takes turns with others in its registers."""
    several = UNDER_WAY // box.type.shape[0]
    return replace(
        box,
        rotates=False,
        storage=f"{box.members[0]}.{number % several}",
        registers=box.registers if number < several else 0,
    )

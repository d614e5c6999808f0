"""How large the parts of register tiles are that single instructions bring, take and leave.

Which tasks of a loop compute on vectors, and what they make.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.target import LOAD_BYTES, REGISTER_BYTES
from pipeloom.order.spread import RUN, UNIFORM, per_lane, run_depth
from pipeloom.order.tasks import Lowered, Place, Task
from pipeloom.program.nodes import Region
from pipeloom.program.steps import Unit


@dataclass(frozen=True, slots=True)
class Grain:
    """A fragment of a tile: its ``size`` by dimension, of which one instruction brings ``once``,
    and one product takes ``taken``."""

    size: tuple[int, ...]
    once: tuple[int, ...]
    taken: tuple[int, ...]


def grain_of(place: Place, second: bool) -> Grain:
    """What one matrix instruction and one read have in common.

    Where a read serves two instructions, the second operand has two blocks of rows, so that of the
    four products of a step no neighbours add to one result.
    """
    assert place.layout is not None
    numbers = dict(place.layout.numbers)
    if is_code_beside(place):
        codes = least_box(place)
        return Grain(codes, codes, codes)
    if is_beside_result(place):
        beside = least_box(place)[:1] if numbers["only"] == 0 else least_box(place)[1:]
        return Grain(beside, beside, beside)
    side, depth = numbers["side"], numbers["depth"]
    if place.layout.kind == "scales":
        codes = side * numbers.get("rows", 1), depth * numbers.get("steps", 1)
        return Grain(codes, codes, (side, depth))
    if "run" in numbers:
        size = worked_box(place)
        return Grain(size, size, size)
    axis = numbers.get("axis", 1)
    once = read_depth(place)
    short = "short" in numbers
    twice = not short and second and depth < once and place.type.shape[1 - axis] % (2 * side) == 0
    rows, deep = 2 * side if twice else side, max(depth, once)
    sizes = [(rows, deep), (side, once), (rows, depth if short else deep)]
    return Grain(*(size[::-1] if axis == 0 else size for size in sizes))


def worked_box(place: Place) -> tuple[int, ...]:
    """The smallest box of an operand that vector ops compute, or compute it of: the depth of one
    product, or of the lanes' runs where those go further; of codes for groups what one covers."""
    assert place.layout is not None
    numbers = dict(place.layout.numbers)
    deep = max(numbers["depth"], run_depth(place.layout), numbers.get("group", 0))
    if "only" in numbers:
        return (min(deep, place.type.shape[-1]),)
    axis = numbers.get("axis", 1)
    deep = min(deep, place.type.shape[axis])
    return (deep, numbers["side"]) if axis == 0 else (numbers["side"], deep)


def read_depth(place: Place) -> int:
    """How deep an operand is that one read of every lane brings."""
    assert place.layout is not None
    numbers = dict(place.layout.numbers)
    if "run" in numbers:
        return worked_box(place)[numbers.get("axis", -1)]
    deep = LOAD_BYTES * 8 * WAVE_LANES // (numbers["side"] * place.type.dtype.bits)
    narrow = place.type.dtype.bits < 8 * REGISTER_BYTES
    singly = narrow and place.registers == per_lane(place.layout, place.type.shape)
    length = place.type.shape[numbers.get("axis", 1)]
    if ("permuted" in numbers and singly) or length % deep:
        deep = numbers["depth"]  # read element by element, or in runs of an instruction
    return min(deep, length)


def is_operand(place: Place) -> bool:
    """Whether a matrix instruction takes it, or it becomes what one takes."""
    return place.layout is not None and place.layout.kind in ("operand", "scales")


def has_codes(place: Place) -> bool:
    """Whether one element of it stands for a group."""
    return place.layout is not None and "group" in dict(place.layout.numbers)


def is_result(place: Place) -> bool:
    """Whether a matrix instruction leaves it."""
    return place.layout is not None and place.layout.kind == "accumulator"


def is_beside_result(place: Place) -> bool:
    """Whether it has an element for each row, or each column, of a matrix result."""
    return is_result(place) and "only" in dict(place.layout.numbers if place.layout else ())


def is_code_beside(place: Place) -> bool:
    """Whether it is loaded beside a matrix result, an element for a row of its tile, or for all."""
    if place.layout == UNIFORM:
        return place.type.dtype.covers > 1
    return is_result(place) and has_codes(place) and "only" not in dict(_numbers(place))


def _numbers(place: Place) -> tuple[tuple[str, int], ...]:
    return () if place.layout is None else place.layout.numbers


def least_box(place: Place) -> tuple[int, ...]:
    """The smallest box of a matrix result that is whole registers of every lane; of codes for
    groups of columns, what one covers."""
    numbers, shape = dict(_numbers(place)), place.type.shape
    if place.layout == UNIFORM:
        return shape
    side = numbers["side"]
    across, along = side, RUN * WAVE_LANES // side
    rows, columns = (along, across) if numbers.get("flip") else (across, along)
    return rows, max(columns, min(numbers.get("group", 0), shape[-1]))


def fragment_name(name: str, corner: Sequence[int], grain: Grain) -> str:
    """Of the fragment at a corner of a tile: it counts along every dimension."""
    return ".".join([name, *(str(c // g) for c, g in zip(corner, grain.size, strict=True))])


def has_vectors(lowered: Lowered) -> bool:
    """Whether its loop computes on vectors too."""
    return any(is_vector(task) for task in lowered.of(Region.LOOP))


def is_vector(task: Task) -> bool:
    """Whether it is a vector op, or the branch around one."""
    return task.unit in (Unit.VECTOR, Unit.TRANS, Unit.SCALAR)


def is_read(task: Task) -> bool:
    """Whether it brings something to registers."""
    return task.unit in (Unit.LDS_READ, Unit.LOAD)


def leaves(task: Task) -> bool:
    """Whether it takes a result to LDS, or to memory; or a tile on its way to LDS."""
    return task.unit in (Unit.LDS_WRITE, Unit.STORE)


def is_between(task: Task) -> bool:
    """Whether it stands between products, as what they leave allows: a vector op, or what takes a
    result away."""
    return is_vector(task) or leaves(task)


def made_operands(lowered: Lowered) -> set[str]:
    """The places of operands that vector ops of the loop make."""
    found = (
        lowered.place(x.place) for t in lowered.of(Region.LOOP) if is_vector(t) for x in t.left
    )
    return {p.name for p in found if p is not None and is_operand(p)}


def operand_sources(tasks: Sequence[Task], made: Set[str]) -> set[str]:
    """The places of what vector ops make these operands of."""
    found: set[str] = set()
    more = [t for t in tasks if is_vector(t) and any(x.place in made for x in t.left)]
    while more:
        for place in {x.place for x in more.pop().reads} - found:
            found.add(place)
            more += [t for t in tasks if is_vector(t) and any(x.place == place for x in t.left)]
    return found


def is_skipped(task: Task) -> bool:
    """Whether it is jumped over as a rule, so that it stays whole."""
    return task.when is not None or task.unit is Unit.SCALAR


def is_slow(task: Task) -> bool:
    """Whether its results come late, and are not jumped over."""
    return task.unit is Unit.TRANS and task.when is None

"""What makes a program one: every rule that a program must keep to be built or read at all.

Judges may rely on these: names are known, boxes lie inside, groups agree with the meaning's tiles,
and accesses are counted as the target counts them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeloom.checks import check_int
from pipeloom.errors import StructureError
from pipeloom.machine.target import Traffic
from pipeloom.program.added_outputs import check_added_once
from pipeloom.program.block_ops import ends_with_blocks
from pipeloom.program.nodes import NodeKind
from pipeloom.program.resources import Space
from pipeloom.program.steps import Access, Barrier, Unit, Wait, Work
from pipeloom.program.tiles import Box, TileType

if TYPE_CHECKING:
    from pipeloom.program.program import Group, Program

MOST_ELEMENTS = 1 << 25
"""Elements that a workgroup holds at most: of all its resources together, and of any one value.
Tables of odd tiles are lifted to 22 million, in units finer than an element; a judge that allocates
them has a limit of its own."""
MOST_ITERATIONS = 1 << 10
"""Iterations, at most, that a program computes per trip and beside its trips."""
MOST_LEAST = 1 << 5
"""Trips that a launch must pass at most. Judges walk as many, several times."""
MOST_INSTRUCTIONS = 1 << 16
"""Instructions that a step issues at most."""


def check(program: Program) -> None:
    waves = sorted(w for g in program.groups for w in g.waves)
    if not waves or waves != list(range(len(waves))):
        raise StructureError(
            f"program {program.name!r}: the groups hold waves {waves}",
            hint="every wave from 0 on stands in exactly one group",
            field="groups",
        )
    names = [r.name for r in program.resources]
    taken = [
        n for n in names if names.count(n) > 1 or (n in program.meaning and _is_memory(program, n))
    ]
    if taken:
        raise StructureError(
            f"program {program.name!r}: {taken[0]!r} names two places",
            hint="a resource needs a name of its own, unlike any input or output",
            field=taken[0],
        )
    _check_sizes(program)
    _check_trips(program)
    for group in program.groups:
        for section, slot, step in group.steps():
            where = f"{section.name}[{slot}]"
            if isinstance(step, Work):
                _check_work(program, group, step, where)
            elif isinstance(step, Wait):
                program.target.counter(step.counter)
                check_int(f"program {program.name}", f"{where}.count", step.count, 0)
            elif isinstance(step, Barrier):
                _check_barrier(program, step, where)
    check_added_once(program)


def _check_sizes(program: Program) -> None:
    """What judges allocate is what a workgroup could hold, many times over at most."""
    waves = sum(len(group.waves) for group in program.groups)
    held = {
        f"resources.{r.name}": r.copies * r.type.elements * (1 if r.space is Space.LDS else waves)
        for r in program.resources
    }
    values = {f"meaning.{node.name}": node.type.elements for node in program.meaning.nodes}
    for sizes, total in ((held, sum(held.values())), (values, max(values.values()))):
        if total > MOST_ELEMENTS:
            field = max(sizes, key=lambda name: sizes[name])
            raise StructureError(
                f"program {program.name!r}: {field} has {sizes[field]:,} elements",
                hint=f"a workgroup holds {MOST_ELEMENTS:,} elements at most, copies and waves "
                "counted: give smaller tiles or fewer copies",
                field=field,
            )


def _check_barrier(program: Program, step: Barrier, where: str) -> None:
    kind, owner = program.target.barrier(step.name), f"program {program.name}"
    if kind.phases:
        check_int(owner, f"{where}.phase", step.phase, 0, kind.phases - 1)
        check_int(owner, f"{where}.arrivals", step.arrivals, 1)
        check_int(owner, f"{where}.copy", step.copy, 0)
    elif step != Barrier(step.name, step.label):
        raise StructureError(
            f"program {program.name!r}: {where} gives a phase, arrivals or a copy to the barrier "
            f"{step.name!r}, which has no phases on {program.target.arch}",
            hint="all waves of the workgroup meet at it; a target's BarrierKind says what has them",
            field=where,
        )


def _check_trips(program: Program) -> None:
    owner, known = f"program {program.name}", [count.name for count in program.trips]
    for number in (program.iterations.constant, *(f for _, f in program.iterations.factors)):
        check_int(owner, "iterations", number, -MOST_ITERATIONS, MOST_ITERATIONS)
    for count in program.trips:
        check_int(owner, f"trips.{count.name}.least", count.least, 0, MOST_LEAST)
        if known.count(count.name) > 1:
            raise StructureError(
                f"program {program.name!r} declares the trip count {count.name!r} twice",
                hint="name each trip count once",
                field="trips",
            )
    places = [("iterations", program.iterations, None), ("plain", program.plain, None)] + [
        (f"section {section.name!r}", section.first, section.trips)
        for group in program.groups
        for section in group.sections
    ]
    for where, first, trips in places:
        names = [name for name, _ in first.factors]
        strange = {*names, *([] if trips is None else [trips])} - set(known)
        if strange:
            raise StructureError(
                f"program {program.name!r}: {where} counts trips by {', '.join(sorted(strange))}",
                hint=f"declared are: {', '.join(sorted(known)) or 'none'}",
                field=where,
            )
        if len(set(names)) != len(names):
            raise StructureError(
                f"program {program.name!r}: {where} is {first}",
                hint="name each trip count once, with one factor",
                field=where,
            )


def _is_memory(program: Program, name: str) -> bool:
    meaning = program.meaning
    return _is_input(program, name) or (name in meaning and meaning[name].kind is NodeKind.OUTPUT)


def _check_instructions(program: Program, step: Work, where: str) -> None:
    """A product that names its instruction has types which that takes together.

    One that names none may be judged, and is no kernel.
    """
    types = [program.meaning[name].type.dtype.name for name in program.meaning[step.node].uses[:2]]
    for issue in step.issues:
        if issue.unit is not Unit.MATRIX or not issue.shape or len(set(types)) < 2:
            continue
        op = program.target.matrix_op(issue.shape)
        if not op.multiplies(*types, scaled=op.scaled):
            raise StructureError(
                f"program {program.name!r}: {where} {step.label!r} multiplies {types[0]} by "
                f"{types[1]}, which {op.name} does not",
                hint=f"{op.name} takes {' or '.join(op.operands)}, both operands alike"
                if not op.mixes
                else f"{op.name} takes {', '.join(op.operands)}",
                field=where,
            )


def _check_work(program: Program, group: Group, step: Work, where: str) -> None:
    node = program.meaning[step.node]
    domain = node.type if step.is_copy else program.meaning.domain(node)
    for part in step.parts:
        if len(part) != len(domain.dims) or not _is_within(domain, part):
            raise StructureError(
                f"program {program.name!r}: {where} {step.label!r} works on {part}, which is no "
                f"part of {domain}",
                hint="parts are boxes of the node's domain with something in them",
                field=where,
            )
        if not step.is_copy and not ends_with_blocks(node, part, domain.dims):
            raise StructureError(
                f"program {program.name!r}: {where} {step.label!r} works on {part}, a part of a "
                f"block of {node.within}",
                hint="let parts end where blocks do",
                field=where,
            )
    if len(step.parts) > 1 and len(step.parts) != len(group.waves):
        raise _per_wave(program, where, step.label, len(step.parts), group)
    for issue in step.issues:
        owner = f"program {program.name}"
        check_int(owner, f"{where}.issues.count", issue.count, 0, MOST_INSTRUCTIONS)
    if not step.is_copy:
        _check_instructions(program, step, where)
    for access in step.accesses:
        _check_access(program, group, access, where, step.label)
    if step.is_copy:
        _check_copy(program, step, where)
    _check_counter(program, step, where)
    for access in (*step.writes, *step.accumulates):
        if _is_input(program, access.resource):
            raise StructureError(
                f"program {program.name!r}: {where} {step.label!r} writes the input "
                f"{access.resource!r}",
                hint="steps write resources and outputs",
                field=where,
            )
    if any(access.shared for access in (*step.reads, *step.accumulates)) and not (
        step.is_copy and any(access.shared for access in step.writes)
    ):
        raise StructureError(
            f"program {program.name!r}: {where} {step.label!r} reads a slice per wave",
            hint="only a copy may read shared, to a place that it writes shared",
            field=where,
        )


def _check_copy(program: Program, step: Work, where: str) -> None:
    """What a copy reads is as large, dimension by dimension, as what it writes; or 1, repeated."""
    if len(step.reads) != 1 or len(step.writes) != 1:
        return
    sizes = []
    for access in (*step.reads, *step.writes):
        type_ = _type(program, access.resource)
        if access.shared or set(type_.dims) != set(program.meaning[step.node].type.dims):
            return  # its dimensions go by position, or waves share the box
        box = access.boxes[0] if access.boxes else tuple((0, size) for size in type_.shape)
        sizes.append({dim: b - a for dim, (a, b) in zip(type_.dims, box, strict=True)})
    read, written = sizes
    if any(read[dim] not in (1, written[dim]) for dim in read):
        raise StructureError(
            f"program {program.name!r}: {where} {step.label!r} reads {read} and writes {written}",
            hint="a copy writes as much as it reads, along every dimension",
            field=where,
        )


def _type(program: Program, name: str) -> TileType:
    if _is_memory(program, name):
        return program.meaning[name].type
    return program.resource(name).type


_MOVERS = {
    Traffic.GLOBAL: (Unit.LOAD, Unit.LOAD_LDS, Unit.STORE),
    Traffic.LDS: (Unit.LDS_READ, Unit.LDS_WRITE),
}


def _check_counter(program: Program, step: Work, where: str) -> None:
    """The machine counts accesses by what they touch, and one entry per instruction.

    Fewer entries only make waits stricter: a wait for ``n`` retires a step once ``n`` entries
    follow it, which more instructions do earlier.
    """
    touched = _traffic(program, step)
    counter = None if step.counter is None else program.target.counter(step.counter)
    if (None if counter is None else counter.counts) is not touched:
        right = None if touched is None else program.target.counting(touched).name
        raise StructureError(
            f"program {program.name!r}: {where} {step.label!r} is counted by {step.counter}, but "
            f"{program.target.arch} counts it by {right}",
            hint="what touches memory or LDS, and nothing else, is counted as the target says",
            field=where,
        )
    if counter is not None:
        stated = [i.count for i in step.issues if touched and i.unit in _MOVERS[touched]]
        most = sum(stated) if touched and step.issues else None
        check_int(f"program {program.name}", f"{where}.entries", step.entries, 1, most)


def _traffic(program: Program, step: Work) -> Traffic | None:
    """What it touches outside of its wave, by which it is counted."""
    names = {access.resource for access in step.accesses}
    if any(_is_memory(program, n) and not program.meaning[n].kind.is_number for n in names):
        return Traffic.GLOBAL
    in_lds = (r.name in names for r in program.resources if r.space is Space.LDS)
    return Traffic.LDS if any(in_lds) else None


def _is_within(type_: TileType, box: Box) -> bool:
    return all(0 <= a < b <= size for (a, b), size in zip(box, type_.shape, strict=True))


def _is_input(program: Program, name: str) -> bool:
    return name in program.meaning and program.meaning[name].kind.is_input


def _check_access(program: Program, group: Group, access: Access, where: str, label: str) -> None:
    if _is_memory(program, access.resource):
        type_ = program.meaning[access.resource].type
        copies = 1
    else:
        resource = program.resource(access.resource)
        type_, copies = resource.type, resource.copies
        if access.shared and (resource.space is not Space.LDS or len(access.boxes) > 1):
            raise StructureError(
                f"program {program.name!r}: {where} {label!r} shares {access.resource}",
                hint="waves share one box of LDS, or of memory",
                field=where,
            )
    if len(access.boxes) > 1 and len(access.boxes) != len(group.waves):
        raise _per_wave(program, where, label, len(access.boxes), group)
    for box in access.boxes:
        if len(box) != len(type_.dims) or not _is_within(type_, box):
            raise StructureError(
                f"program {program.name!r}: {where} {label!r} touches {box} of "
                f"{access.resource}, which is {type_}",
                hint="boxes lie within their resource and have something in them",
                field=where,
            )
    check_int(f"program {program.name}", f"{where}.copy", access.copy, 0, copies - 1)


def _per_wave(program: Program, where: str, label: str, found: int, group: Group) -> StructureError:
    return StructureError(
        f"program {program.name!r}: {where} {label!r} has {found} boxes for {len(group.waves)} "
        "waves",
        hint="give none, one for all waves of the group, or one per wave",
        field=where,
    )

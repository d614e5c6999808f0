"""A program's loop as a table, for those who write tables.

``export_table`` takes any program of a product on four waves whose loop issues single instructions:
MFMAs, ``ds_read``s that fill a K half of this tile or of the next, loads to LDS, waits, barriers.
It numbers MFMA tiles in the order of their reads, as a table does, and writes the order of MFMAs as
``mfma_reorder`` where it is another. Scalar instructions, which a program does not have, are put
where they do no harm. SYNC is the last kind, so what follows a wait within a slot goes to the next
slot; lift the table and verify it before you use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeloom.cms.table import Sync, Table
from pipeloom.errors import SpecError
from pipeloom.machine.target import Traffic
from pipeloom.program.program import Group, Program, Section
from pipeloom.program.steps import Barrier, Step, Unit, Wait, Work

_ORDER = (
    "GRIncA", "GRIncB", "LRA0", "LRB0", "LRSA", "LRSB", "GRA", "GRB", "LWSA", "LWSB",
    "LRA1", "LRB1", "SYNC", "LCC",
)  # fmt: skip


@dataclass
class _Slots:
    """The entries of one code path, as they are found."""

    found: dict[str, list[int]] = field(default_factory=lambda: {kind: [] for kind in _ORDER})
    sync: list[Sync] = field(default_factory=list)
    tiles: dict[str, list[int]] = field(default_factory=dict)  # first rows, in order of reads
    mfmas: list[tuple[int, int, int]] = field(default_factory=list)  # (m, n, k) where each starts


def export_table(program: Program, *, name: str, layout: str = "TN", dtype: str = "bf16") -> Table:
    """The table of a program's loop; ``SpecError`` where a table cannot say it."""
    paths = [_path(program, group) for group in program.groups]
    first = paths[0]
    if any(path.sync != first.sync or path.mfmas != first.mfmas for path in paths):
        raise _no("its groups differ in more than the places of reads and loads", "groups")
    shape = _shape(program)
    rows, columns = first.tiles["A1"], first.tiles["B1"]
    depths = sorted({k for _, _, k in first.mfmas})
    old = [
        depths.index(k) * len(rows) * len(columns) + columns.index(n) * len(rows) + rows.index(m)
        for m, n, k in first.mfmas
    ]
    across = [_waves_along(program, dim) for dim in "mn"]
    end = len(first.mfmas) - 1
    for path in paths:
        path.found |= {"GRIncA": [-1] * 9, "GRIncB": [-1] * 9, "LCC": [end, end]}
        for operand in "AB":
            path.found[f"LRS{operand}"] = [path.found[f"LR{operand}0"][-1]]
            path.found[f"LWS{operand}"] = [path.found[f"GR{operand}"][-1]]
    loads = sum(len(first.found[kind]) // 2 for kind in ("GRA", "GRB"))
    schedule = {}
    for kind in _ORDER:
        lists = tuple(tuple(path.found[kind]) for path in paths)
        schedule[kind] = lists if len(set(lists)) > 1 else lists[:1]
    sizes = program.meaning["C.next"].type.sizes
    k = shape[2] * len(depths)
    return Table(
        id=name,
        tile=(sizes["m"], sizes["n"], k),
        layout=layout,
        dtype=dtype,
        mi=shape,
        wave_group=(across[0], across[1]),
        wave_tile=(len(rows), len(columns)),
        num_code_paths=len(paths),
        num_mfma=len(old),
        schedule=schedule,
        sync=tuple(first.sync),
        nglshift=loads,
        nllshift=loads,
        nll_zero_dscnt=True,
        mfma_reorder=() if old == sorted(old) else tuple(old),
    )


def _path(program: Program, group: Group) -> _Slots:
    found, slot, behind = _Slots(), -1, False
    turn = None
    for step in _one_iteration(group):
        unit = _unit(step)
        if unit is Unit.MATRIX and isinstance(step, Work):
            slot, behind, turn = slot + 1, False, step.iteration
            (m, _), (n, _), (k, _) = (step.part(0) or ())[:3]
            found.mfmas.append((m, n, k))
        elif isinstance(step, Wait | Barrier):
            found.found["SYNC"].append(slot)
            found.sync.append(_sync(program, step))
            behind = True
        elif isinstance(step, Work):
            # SYNC is the last of its slot: what stands behind one goes on behind the next MFMA.
            at = slot + behind
            if unit is Unit.LOAD_LDS:
                found.found[f"GR{step.node}"] += [at, at]
            elif unit is Unit.LDS_READ:
                half = int(step.iteration != (0 if turn is None else turn))
                found.found[f"LR{step.node}{half}"].append(at)
                seen = found.tiles.setdefault(f"{step.node}{half}", [])
                row = (step.part(0) or ((0, 0),))[0][0]
                if row not in seen:
                    seen.append(row)
            else:
                raise _no(f"{step.label} is neither an MFMA, a read nor a load", "steps")
    _check(found)
    _from_the_wave(found)
    return found


def _from_the_wave(found: _Slots) -> None:
    """Count rows from the wave's first, so that groups compare."""
    first = [min(start[axis] for start in found.mfmas) for axis in (0, 1)]
    found.mfmas = [(m - first[0], n - first[1], k) for m, n, k in found.mfmas]
    for key, rows in found.tiles.items():
        found.tiles[key] = [row - first["AB".index(key[0])] for row in rows]


def _check(found: _Slots) -> None:
    for operand in "AB":
        if found.tiles.get(f"{operand}0", []) != found.tiles.get(f"{operand}1", [None]):
            raise _no(f"the halves of {operand} are not read in one order of tiles", "steps")
        if not found.found[f"GR{operand}"]:
            raise _no(f"it does not load {operand}", "steps")
    a, b = found.found["GRA"], found.found["GRB"]
    if not (a[-1] <= b[0] or b[-1] < a[0]):
        raise _no("loads of A and B alternate, which one m0 cannot follow", "steps")
    if max(slot for slots in found.found.values() for slot in slots) >= len(found.mfmas):
        raise _no("something stands behind the last wait of the loop", "steps")


def _one_iteration(group: Group) -> Sequence[Step]:
    """The steps of the loop that serve its first iteration, which must be a whole share of it."""
    loops: list[Section] = [section for section in group.sections if section.trips is not None]
    if len(loops) != 1 or not loops[0].advance or len(loops[0].steps) % loops[0].advance:
        raise _no("it has no loop of equal iterations", "sections")
    return loops[0].steps[: len(loops[0].steps) // loops[0].advance]


def _sync(program: Program, step: Wait | Barrier) -> Sync:
    if isinstance(step, Barrier):
        return Sync(barrier=True)
    if program.target.counter(step.counter).counts is Traffic.GLOBAL:
        return Sync(vlcnt=step.count)
    return Sync(dscnt=step.count)


def _unit(step: Step) -> Unit | None:
    """The one instruction of a step, apart from scalar ones."""
    if not isinstance(step, Work):
        return None
    issues = [i for i in step.issues if i.unit not in (Unit.SCALAR, Unit.VECTOR)]
    if len(issues) != 1 or issues[0].count != 1:
        raise _no(f"{step.label} is {sum(i.count for i in issues)} instructions", "steps")
    return issues[0].unit


def _shape(program: Program) -> tuple[int, int, int]:
    for group in program.groups:
        for _, _, step in group.steps():
            if isinstance(step, Work) and _unit_of_matrix(step):
                name = next(i.shape for i in step.issues if i.unit is Unit.MATRIX)
                op = program.target.matrix_op(name)
                return op.m, op.n, op.k
    raise _no("it multiplies nothing", "steps")


def _unit_of_matrix(step: Work) -> bool:
    return any(issue.unit is Unit.MATRIX for issue in step.issues)


def _waves_along(program: Program, dim: str) -> int:
    """How many different parts of a dimension the waves of the workgroup have."""
    starts = set()
    for group in program.groups:
        step = next(s for _, _, s in group.steps() if isinstance(s, Work) and _unit_of_matrix(s))
        axis = "mn".index(dim)
        starts |= {step.parts[w % len(step.parts)][axis] for w in range(len(group.waves))}
    return len(starts)


def _no(what: str, field: str) -> SpecError:
    return SpecError(
        f"no table can say this program: {what}",
        hint="give a product of four waves whose loop issues single instructions",
        field=field,
    )

"""A program's loop as a table, for those who write tables.

``export_table`` takes any program of a product on four waves whose loop issues single instructions:
MFMAs, ``ds_read``s, loads to LDS, waits, barriers. A loop in the form of a table keeps every slot:
each read fills a register set of this K tile or of the next, in one order of MFMA tiles, the loads
of one operand precede those of the other. What ``derive`` finds is not in that form, as
``unlike_a_table`` says: of such a loop the table has the order of the MFMAs, as far as the form
allows (one K half, or quarter of the tile, after the other), and ``fitting`` says where all else
stands. Scalar instructions, which a program does not have, are put where they do no harm.
SYNC is the last kind but one, so what follows a wait within a slot goes to the next slot. Lift the
table and verify it before you use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pipeloom.cms.fitting import KINDS, LOOP_COUNTER, MOVES, READ_BYTES, place, swaps
from pipeloom.cms.fragments import number_of
from pipeloom.cms.table import DTYPES, LDS_BUFFERS, SyncEntry, Table
from pipeloom.errors import SpecError
from pipeloom.machine.dtypes import F32
from pipeloom.machine.target import Target, Traffic
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.program import Group, Program, Section
from pipeloom.program.resources import Space
from pipeloom.program.steps import Barrier, Step, Unit, Wait, Work

CHIP = "gfx950"
WAVES = 4
LOAD_BYTES = (16, 4)
"""Of a lane, by one load: the widest that brings an operand in whole loads."""


@dataclass
class _Slots:
    """The entries of one code path, as they are found."""

    found: dict[str, list[int]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    sync: list[SyncEntry] = field(default_factory=list)
    tiles: dict[str, list[int]] = field(default_factory=dict)  # first rows, in order of reads
    mfmas: list[tuple[int, int, int]] = field(default_factory=list)  # (m, n, k) where each starts


def export_table(program: Program, *, name: str, layout: str = "TN") -> Table:
    """The table of a program's loop; ``SpecError`` where a table cannot say it."""
    product = _product(program.meaning)
    frame = _frame(program, product, name, layout)
    paths = [_path(program, product, group) for group in program.groups]
    if _unlike(paths, frame):
        return _placed(program, frame)
    first = paths[0]
    rows, columns = (
        list(dict.fromkeys(first.tiles[f"{operand}1"] + first.tiles[f"{operand}0"]))
        for operand in "AB"
    )
    loads = sum(len(first.found[kind]) // 2 for kind in ("GRA", "GRB"))
    begin = min(path.found[kind][0] for path in paths for kind in ("GRA", "GRB"))
    moves = [min(n, begin) for n in range(2 * MOVES)]
    for path in paths:
        path.found |= {"GRIncA": moves[:MOVES], "GRIncB": moves[MOVES:]}
        path.found["LCC"] = [len(first.mfmas) - 1] * LOOP_COUNTER
        path.found |= swaps(path.found, frame.lds_buffers)
    schedule = {}
    for kind in KINDS:
        lists = tuple(tuple(path.found[kind]) for path in paths)
        schedule[kind] = lists if len(set(lists)) > 1 else lists[:1]
    return replace(
        frame,
        num_code_paths=len(paths),
        schedule=schedule,
        sync=tuple(first.sync),
        nglshift=loads,
        nllshift=loads,
        mfma_reorder=_reorder(first.mfmas, rows, columns, frame),
    )


def unlike_a_table(program: Program) -> str:
    """Why a program's loop is not in the form of a table; nothing where it is."""
    product = _product(program.meaning)
    frame = _frame(program, product, program.name, "TN")
    return _unlike([_path(program, product, group) for group in program.groups], frame)


def check_exportable(meaning: Meaning, target: Target, waves: int) -> None:
    """Refuses what no order of its steps makes a table: known before a loop is derived."""
    product = _product(meaning)
    types = {node.type.dtype for node in product.operands}
    if len(types) > 1 or not types <= {*DTYPES.values()} - {F32}:
        names = " and ".join(sorted(dtype.name for dtype in types))
        raise _no(f"its elements are {names}", "dtype")
    if target.arch != CHIP:
        raise _no(f"it is for {target.arch}, and tables are for {CHIP}", "target")
    if waves != WAVES:
        raise _no(f"it has {waves} waves", "waves")
    depth = product.operands[0].type.sizes[meaning.over]
    most = 2 * max(op.k for op in target.matrix_ops if {t.name for t in types} <= {*op.takes})
    if depth > most:
        raise _no(f"a K tile of {depth}, where two MFMAs take {most} at most", "tile")


def left_out(meaning: Meaning) -> str:
    """What a program does and a table does not say: the sums' start, and what becomes of them."""
    after = [n.name for n in meaning.nodes if n.kind is NodeKind.OP and n.region is Region.AFTER]
    starts = [n.start for n in meaning.nodes if n.kind is NodeKind.CARRY and n.start]
    return ", ".join([*(f"sums that start at {start:g}" for start in starts), *after])


# --- any loop -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Product:
    """C += A @ B, whatever they are called: A has the rows of C, B its columns."""

    operands: tuple[Node, Node]
    sums: Node

    def letter(self, name: str) -> str:
        """What a table calls an operand."""
        return "AB"[[node.name for node in self.operands].index(name)]


def _product(meaning: Meaning) -> _Product:
    loop = [n for n in meaning.nodes if n.region is Region.LOOP and n.kind is not NodeKind.OUTPUT]
    kinds = sorted(node.kind.name for node in loop)
    sums = next((node for node in loop if node.op == "matmul"), None)
    flat = sums is not None and sums.init is not None and len(sums.type.dims) == 2
    if sums is None or not flat or kinds != ["CARRY", "OP", "STREAM", "STREAM"]:
        raise _no("its loop is not one sum of products, C += A @ B of two streams", "meaning")
    streams = sorted(
        (meaning[name] for name in sums.uses), key=lambda n: n.type.dims[0] != sums.type.dims[0]
    )
    for node, dim in zip(streams, sums.type.dims, strict=False):
        if node.type.dims[:2] != (dim, meaning.over):
            raise _no(
                f"{node.name} has {', '.join(node.type.dims)}, and a table has K contiguous: "
                f"{dim}, {meaning.over}",
                node.name,
            )
    return _Product((streams[0], streams[1]), sums)


def _frame(program: Program, product: _Product, name: str, layout: str) -> Table:
    """The table without its entries; its MFMAs in the program's order."""
    groups = program.groups
    check_exportable(program.meaning, program.target, program.waves)
    element = product.operands[0].type.dtype
    dtype = next(name for name, known in DTYPES.items() if known == element)
    orders = [[_start(step) for step in _mfmas(program, group)] for group in groups]
    first = next(_mfmas(program, groups[0]))
    op = program.target.matrix_op(next(i.shape for i in first.issues if i.unit is Unit.MATRIX))
    rows, columns, depths = (list(dict.fromkeys(part)) for part in zip(*orders[0], strict=True))
    if len(depths) > 2 or (len(depths) == 1 and (len(rows) % 2 or len(columns) % 2)):
        raise _no(
            f"{len(depths)} K steps of {len(rows)}x{len(columns)} MFMAs in a wave, where a table "
            "has two, or one of even numbers of MFMAs",
            "tile",
        )
    if any(_ranks(order) != _ranks(orders[0]) for order in orders):
        raise _no("its groups multiply in different orders", "groups")
    rows_of, columns_of = product.sums.type.shape
    in_lds = [r for r in program.resources if r.space is Space.LDS]
    if not in_lds:
        raise _no("it stages nothing in LDS: use a.staged() @ b.staged()", "staged")
    across = [_waves_along(program, axis) for axis in (0, 1)]
    frame = Table(
        id=name,
        tile=(rows_of, columns_of, op.k * len(depths)),
        layout=layout,
        dtype=dtype,
        mi=(op.m, op.n, op.k),
        wave_group=(across[0], across[1]),
        wave_tile=(len(rows), len(columns)),
        num_code_paths=1,
        num_mfma=len(orders[0]),
        schedule={},
        sync=(),
        nll_zero_dscnt=True,
        lds_buffers=max(
            LDS_BUFFERS[0], min([LDS_BUFFERS[-1], *(staged.copies for staged in in_lds)])
        ),
    )
    return replace(frame, mfma_reorder=_reorder(orders[0], rows, columns, frame))


def _placed(program: Program, frame: Table) -> Table:
    old = frame.mfma_reorder or tuple(range(frame.num_mfma))
    part = frame.num_mfma // (2 if frame.k_steps == 2 else 4)
    sorted_ = tuple(sorted(old, key=lambda number: number // part))
    element, lanes = DTYPES[frame.dtype], program.target.wave_lanes.value * WAVES
    loads = {}
    for operand, rows in zip("AB", frame.tile, strict=False):
        size = int(element.bytes(rows * frame.tile[2]))
        whole = [n for n in LOAD_BYTES if size % (n * lanes) == 0]
        if not whole:
            raise _no(f"{size} bytes of {operand} are no whole loads of {WAVES} waves", "tile")
        loads[operand] = size // (whole[0] * lanes)
    fragment = element.bytes(frame.mi[0] * frame.mi[2]) / program.target.wave_lanes.value
    total = sum(loads.values())
    return place(
        replace(
            frame,
            mfma_reorder=() if sorted_ == tuple(range(frame.num_mfma)) else sorted_,
            nglshift=total,
            nllshift=total,
        ),
        loads,
        int(fragment) // READ_BYTES,
        program.target,
    )


def _mfmas(program: Program, group: Group) -> Iterator[Work]:
    """The MFMAs of one iteration, in order: those that two trips of the loop have of the second."""
    loop = program.main_loop(group)
    if loop is None or not loop.advance:
        raise _no("it has no loop", "sections")
    for trip in (1, 0):
        for step in loop.steps:
            if not isinstance(step, Work) or step.iteration != trip * loop.advance:
                continue
            if any(issue.unit is Unit.MATRIX for issue in step.issues):
                yield step


def _start(step: Work) -> tuple[int, int, int]:
    (m, _), (n, _), (k, _) = (step.part(0) or ())[:3]
    return m, n, k


def _ranks(order: Sequence[tuple[int, int, int]]) -> list[tuple[int, ...]]:
    """The same, counting rows, columns and depths by their first use."""
    known = [list(dict.fromkeys(part)) for part in zip(*order, strict=True)]
    return [tuple(names.index(at) for names, at in zip(known, one, strict=True)) for one in order]


def _reorder(
    order: Sequence[tuple[int, int, int]], rows: list[int], columns: list[int], frame: Table
) -> tuple[int, ...]:
    """``mfma_reorder`` where tiles are numbered in the order of ``rows`` and ``columns``."""
    depths = sorted({k for _, _, k in order})
    old = tuple(
        number_of(frame, rows.index(m), columns.index(n), depths.index(k)) for m, n, k in order
    )
    return () if old == tuple(range(len(old))) else old


def _waves_along(program: Program, axis: int) -> int:
    """How many different parts of a dimension the waves of the workgroup have."""
    starts = set()
    for group in program.groups:
        step = next(_mfmas(program, group))
        starts |= {step.parts[w % len(step.parts)][axis] for w in range(len(group.waves))}
    return len(starts)


# --- a loop in the form of a table ----------------------------------------------------------------


def _path(program: Program, product: _Product, group: Group) -> _Slots:
    found, slot, behind = _Slots(), -1, False
    turn = None
    for step in _one_iteration(group):
        unit = _unit(step)
        if unit is Unit.MATRIX and isinstance(step, Work):
            slot, behind, turn = slot + 1, False, step.iteration
            found.mfmas.append(_start(step))
        elif isinstance(step, Wait | Barrier):
            found.found["SYNC"].append(slot)
            found.sync.append(_sync(program, step))
            behind = True
        elif isinstance(step, Work):
            # SYNC is the last of its slot: what stands behind one goes on behind the next MFMA.
            at = slot + behind
            if unit is Unit.LOAD_LDS:
                found.found[f"GR{product.letter(step.node)}"] += [at, at]
            elif unit is Unit.LDS_READ:
                half = int(step.iteration != (0 if turn is None else turn))
                which = f"{product.letter(step.node)}{half}"
                found.found[f"LR{which}"].append(at)
                seen = found.tiles.setdefault(which, [])
                row = (step.part(0) or ((0, 0),))[0][0]
                if row not in seen:
                    seen.append(row)
            else:
                raise _no(f"{step.label} is neither an MFMA, a read nor a load", "steps")
    return found


def _unlike(paths: Sequence[_Slots], frame: Table) -> str:
    """Why a loop is not in the form of a table."""
    for found in paths:
        if found.sync != paths[0].sync or _ranks(found.mfmas) != _ranks(paths[0].mfmas):
            return "its groups differ in more than the places of reads and loads"
        if len(found.mfmas) != frame.num_mfma or len(set(found.mfmas)) != frame.num_mfma:
            return "its loop is cut within an iteration"
        for operand in "AB":
            halves = [found.tiles.get(f"{operand}{half}", []) for half in (0, 1)]
            if frame.k_steps == 2 and halves[0] != halves[1]:
                return f"the halves of {operand} are not read in one order of tiles"
            whole = len(halves[0]) == len(halves[1]) and not {*halves[0]} & {*halves[1]}
            if frame.k_steps == 1 and not whole:
                return f"{operand} is not read in two halves of its tiles"
            if not found.found[f"GR{operand}"]:
                return f"it does not load {operand}"
        a, b = found.found["GRA"], found.found["GRB"]
        if not (a[-1] <= b[0] or b[-1] < a[0]):
            return "loads of A and B alternate, which one m0 cannot follow"
        if max(slot for slots in found.found.values() for slot in slots) >= frame.num_mfma:
            return "something stands behind the last wait of the loop"
    return ""


def _one_iteration(group: Group) -> Sequence[Step]:
    """The steps of the loop that serve its first iteration, which must be a whole share of it."""
    loops: list[Section] = [section for section in group.sections if section.trips is not None]
    if len(loops) != 1 or not loops[0].advance or len(loops[0].steps) % loops[0].advance:
        raise _no("it has no loop of equal iterations", "sections")
    return loops[0].steps[: len(loops[0].steps) // loops[0].advance]


def _sync(program: Program, step: Wait | Barrier) -> SyncEntry:
    if isinstance(step, Barrier):
        return SyncEntry(barrier=True)
    if program.target.counter(step.counter).counts is Traffic.GLOBAL:
        return SyncEntry(vlcnt=step.count)
    return SyncEntry(dscnt=step.count)


def _unit(step: Step) -> Unit | None:
    """The one instruction of a step, apart from scalar ones."""
    if not isinstance(step, Work):
        return None
    issues = [i for i in step.issues if i.unit not in (Unit.SCALAR, Unit.VECTOR)]
    if len(issues) != 1 or issues[0].count != 1:
        raise _no(f"{step.label} is {sum(i.count for i in issues)} instructions", "steps")
    return issues[0].unit


def _no(what: str, field: str) -> SpecError:
    return SpecError(
        f"no table can say this program: {what}",
        hint="give a product of four waves whose loop issues single instructions",
        field=field,
    )

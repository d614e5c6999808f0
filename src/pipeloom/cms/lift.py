"""A table as a program, so that the judges take it like any other.

Every entry becomes the step it is: a load to LDS (all waves together), a ``ds_read``, a pack, an
MFMA, a wait, a barrier, each touching the part that ``fragments`` says and the buffer and tile that
``scalars`` finds its addresses to mean. Code paths are wave groups: path p runs on the SIMDs whose
number leaves p. The sections are those of the kernel:

    prologue   tiles 0 and 1 to LDS, the first register sets; all waited for
    loop       the main loop, once per LDS buffer, since a step names its buffer; T trips
    ngl        no global load: the last but one tile, path 0 on all SIMDs
    nll        no local load: the last tile
    store      C to memory

So with two buffers a program stands for an even number of tiles; an odd one runs the same steps
with the buffers' names exchanged. Scalar instructions have no step of their own: the next step's
``issues`` include them, as they do the branch of all iterations but the last of a trip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from pipeloom.cms.fragments import FIRST, SECOND, FragmentMap, products, slices_of
from pipeloom.cms.scalars import Addresses, check_scalars, follow
from pipeloom.cms.table import DTYPES, Table
from pipeloom.errors import SpecError
from pipeloom.machine.chips import ANY_CHIP, target_for
from pipeloom.machine.dtypes import F32
from pipeloom.machine.target import Target, Traffic
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Node, NodeKind, Region
from pipeloom.program.program import Affine, Group, Program, Section, TripCount
from pipeloom.program.provenance import Provenance
from pipeloom.program.resources import Resource, Space
from pipeloom.program.steps import Access, Barrier, Issue, Step, Unit, Wait, Work
from pipeloom.program.tiles import Box, TileType, shifted

WAVES = 4
TRIPS = "T"
RAW = " raw"
_BRANCH_SLOTS = 5  # a taken branch, in scalar instructions


def lift_table(table: Table, target: Target | None = None) -> Program:
    """The program of a table; raises ``SpecError`` where entries do not make up the tile."""
    return _TableLift(table, target or target_for(ANY_CHIP)).program()


@dataclass
class _Path:
    """One code path's steps, and the scalar instructions that wait for the next step."""

    steps: list[Step] = field(default_factory=list)
    pending: list[Issue] = field(default_factory=list)

    def scalar(self, count: int = 1) -> None:
        self.pending.append(Issue(Unit.SCALAR, count))

    def vector(self, count: int = 1) -> None:
        self.pending.append(Issue(Unit.VECTOR, count))

    def add(self, step: Work) -> None:
        self.steps.append(replace(step, issues=(*self.pending, *step.issues)))
        self.pending = []

    def end(self) -> tuple[Step, ...]:
        """The steps; what is pending goes to the last that is work."""
        last = max(n for n, step in enumerate(self.steps) if isinstance(step, Work))
        step = self.steps[last]
        assert isinstance(step, Work)
        self.steps[last] = replace(step, issues=(*step.issues, *self.pending))
        return tuple(self.steps)


class _TableLift:
    def __init__(self, table: Table, target: Target) -> None:
        self.table, self.target = table, target
        self.a, self.b = FragmentMap(table, "A"), FragmentMap(table, "B")
        for operand in (self.a, self.b):
            if not operand.loads:
                raise SpecError(
                    f"table {table.id} does not load {operand.name}",
                    hint=f"give {table.loads(operand.name)}: m0 and a load in turn",
                    field=table.loads(operand.name),
                )
            operand.check()
        check_scalars(table)
        if table.k_steps not in (1, 2) or (
            table.k_steps == 1 and (table.wave_tile[0] % 2 or table.wave_tile[1] % 2)
        ):
            raise SpecError(
                f"table {table.id}: {table.k_steps} K steps of {table.wave_tile} tiles",
                hint="use two K steps, or one with even wave tiles",
                field="wave_tile",
            )
        self.slices = slices_of(self.a, self.b)
        self.orders = [list(table.order(path)) for path in range(table.num_code_paths)]
        self.addresses = [follow(table, order) for order in self.orders]
        self.products = list(products(table))
        self.global_counter = target.counting(Traffic.GLOBAL).name
        self.lds_counter = target.counting(Traffic.LDS).name

    def program(self) -> Program:
        table = self.table
        paths = table.num_code_paths
        notes = [
            f"path {n}: {note}"
            for n, found in enumerate(self.addresses)
            for note in (*found.notes, *self._unread(self.orders[n]))
        ]
        return Program(
            name=table.id,
            meaning=self._meaning(),
            target=self.target,
            resources=tuple(self._resources()),
            groups=tuple(
                self._group(path, tuple(w for w in range(WAVES) if w % paths == path))
                for path in range(paths)
            ),
            trips=(TripCount(TRIPS, 1),),
            iterations=Affine(2, ((TRIPS, table.lds_buffers),)),
            provenance=Provenance(source=f"table {table.id}", notes=tuple(notes)),
        )

    def _meaning(self) -> Meaning:
        dtype = DTYPES[self.table.dtype]
        c = TileType(("m", "n"), self.table.tile[:2], F32)
        streams = [
            Node(
                name=operand.name,
                kind=NodeKind.STREAM,
                type=TileType(*self._shape(operand, self.table.tile[operand.axis]), dtype),
            )
            for operand in (self.a, self.b)
        ]
        return Meaning(
            self.table.id,
            "k",
            (
                *streams,
                Node(name="C", kind=NodeKind.CARRY, type=c, uses=("C.next",), start=0.0),
                Node(
                    name="C.next",
                    kind=NodeKind.OP,
                    type=c,
                    op="matmul",
                    uses=("A", "B"),
                    init="C",
                ),
                Node(name="out", kind=NodeKind.OUTPUT, type=c, uses=("C",), region=Region.AFTER),
            ),
        )

    def _shape(self, operand: FragmentMap, rows: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
        k = self.table.tile[2]
        return (operand.dim, "k", "s", "q"), (rows, k, self.slices, operand.products)

    def _resources(self) -> Iterator[Resource]:
        dtype = DTYPES[self.table.dtype]
        for operand in (self.a, self.b):
            tile = TileType(*self._shape(operand, self.table.tile[operand.axis]), dtype)
            copies = self.table.lds_buffers
            yield Resource(name=_lds(operand), space=Space.LDS, type=tile, copies=copies)
            wave = TileType(*self._shape(operand, operand.tiles * operand.side), dtype)
            names = [operand.name + suffix for suffix in _registers(self.table, operand)]
            for name in names:
                copies = self._raw_copies if name.endswith(RAW) else 1
                yield Resource(name=_register(name), space=Space.REGISTER, type=wave, copies=copies)
        sides = tuple(o.tiles * o.side for o in (self.a, self.b))
        sums = TileType(("m", "n"), sides, F32)
        yield Resource(name="registers C", space=Space.REGISTER, type=sums, start=0.0)

    def _group(self, path: int, waves: tuple[int, ...]) -> Group:
        buffers = self.table.lds_buffers
        loop = _Path()
        for turn in range(buffers):
            self._iteration(loop, path, waves, turn, "main")
            if turn + 1 < buffers:
                loop.scalar(_BRANCH_SLOTS)
        tail = Affine(0, ((TRIPS, buffers),))
        ends = []
        for turn, name in enumerate(("ngl", "nll")):
            steps = _Path()
            self._iteration(steps, 0, waves, turn, name)
            ends.append(Section(name=name, steps=steps.end(), first=tail))
        sections = (
            Section(name="prologue", steps=self._prologue(waves)),
            Section(name="loop", steps=loop.end(), trips=TRIPS, advance=buffers),
            *ends,
            Section(name="store", steps=(self._store(waves),)),
        )
        return Group(waves, sections)

    def _prologue(self, waves: tuple[int, ...]) -> tuple[Step, ...]:
        path = _Path()
        for tile in (0, 1):
            for operand in (self.a, self.b):
                for number in range(operand.loads):
                    path.add(self._load(operand, number, tile, tile))
        path.steps += [Wait(self.global_counter, 0), Barrier()]
        for operand in (self.a, self.b):
            for entry in range(operand.count("LR", FIRST)):
                path.add(self._read(operand, FIRST, entry, waves, 0, 0))
        path.steps.append(Wait(self.lds_counter, 0))
        if self._packs_ahead:
            for operand in (self.a, self.b):
                for entry in range(operand.count("Pack", FIRST)):
                    self._pack(path, operand, FIRST, entry, waves, 0)
        return path.end()

    @property
    def _packs_ahead(self) -> bool:
        """Whether packs of the next tile's set follow its reads in the same iteration."""
        return "UsePLRPack" in self.table.flags

    @property
    def _raw_copies(self) -> int:
        """Names for what is read and not yet packed. Packs ahead belong to the reads of their own
        iteration: a name by tile, so that one ahead of its read does not find the tile before."""
        return self.table.lds_buffers if self._packs_ahead else 1

    def _unread(self, order: list[tuple[str, int]]) -> Iterator[str]:
        """What packs the reads of its own iteration, and stands before the first of them."""
        at = {entry: place for place, entry in enumerate(order)}
        for operand in (self.a, self.b):
            for half in (FIRST, SECOND) if self._packs_ahead else (SECOND,):
                pack, read = ((operand.key(kind, half), 0) for kind in ("Pack", "LR"))
                if operand.packed and at[pack] < at[read]:
                    yield f"{pack[0]}[0] packs what {read[0]}[0] reads later in the iteration"

    def _iteration(
        self, steps: _Path, path: int, waves: tuple[int, ...], turn: int, which: str
    ) -> None:
        """The entries that remain in the main loop, or in one of the two behind it."""
        table, found = self.table, self.addresses[path]
        for kind, entry in self.orders[path]:
            if kind == "MFMA":
                steps.add(self._mfma(entry, waves, turn))
            elif kind == "SYNC":
                steps.steps += self._sync(entry, which)
            elif kind == "SNOP":
                steps.scalar(1 + table.snop[entry])
            elif kind.startswith("GRInc"):
                if which != "nll":
                    steps.scalar()
            elif kind in ("GRA", "GRB"):
                if which == "main":
                    self._load_entry(steps, kind, entry, turn, found)
            elif kind[:2] == "LR" and kind[2] in "AB":
                if which != "nll" or kind[3:] == "0":
                    steps.add(self._read_entry(kind, entry, waves, turn, found))
            elif kind.startswith("Pack"):
                operand, half = self._operand(kind[4]), SECOND if kind[5:] == "0" else FIRST
                ahead = half == FIRST and self._packs_ahead
                if ahead and which == "nll":
                    steps.vector()  # of a tile that does not exist
                else:
                    self._pack(steps, operand, half, entry, waves, turn + ahead)
            elif kind[:3] == "LRS":
                if which != "nll":
                    last = entry + 1 == len(table.slots(kind, path))
                    steps.pending.append(Issue(Unit.VECTOR if last else Unit.SCALAR))
            elif which == "main" and (kind != "LCC" or turn + 1 < table.lds_buffers):
                steps.scalar()  # LWS, LCC; the simulator adds what ends a loop's trip itself

    def _load_entry(self, steps: _Path, kind: str, entry: int, turn: int, found: Addresses) -> None:
        if entry % 2 == 0:
            steps.scalar()
            return
        operand = next(o for o in (self.a, self.b) if self.table.loads(o.name) == kind)
        number = entry // 2
        tile = turn + 2 - found.tile[operand.name, number]
        buffer = turn + 2 + found.write[operand.name, number]
        steps.add(self._load(operand, number, tile, buffer))

    def _load(self, operand: FragmentMap, number: int, tile: int, buffer: int) -> Work:
        whole = TileType(*self._shape(operand, self.table.tile[operand.axis]), F32).whole
        width = self.slices // operand.loads
        part = (whole[0], whole[1], (number * width, (number + 1) * width), whole[3])
        size = DTYPES[self.table.dtype].bytes(self.table.tile[operand.axis] * self.table.tile[2])
        lanes = self.target.wave_lanes.value * WAVES
        copy = buffer % self.table.lds_buffers
        return Work(
            node=operand.name,
            label=f"load {operand.name}[{number}]",
            iteration=tile,
            reads=(Access(operand.name, (part,), shared=True),),
            writes=(Access(_lds(operand), (part,), copy=copy, shared=True),),
            parts=(part,),
            is_copy=True,
            counter=self.global_counter,
            entries=1,
            issues=(Issue(Unit.LOAD_LDS, bytes=int(size) // (lanes * operand.loads)),),
        )

    def _read_entry(
        self, kind: str, entry: int, waves: tuple[int, ...], turn: int, found: Addresses
    ) -> Work:
        operand, half = self._operand(kind[2]), SECOND if kind[3:] == "0" else FIRST
        tile = turn + (half == FIRST)
        return self._read(operand, half, entry, waves, tile, tile + found.read[kind, entry])

    def _read(
        self,
        operand: FragmentMap,
        half: int,
        entry: int,
        waves: tuple[int, ...],
        tile: int,
        buffer: int,
    ) -> Work:
        box = operand.read(half, entry, self.slices)
        parts = self._parts(operand, box, waves)
        target, copy = _register(operand.name), 0
        if operand.packed:
            target, copy = _register(operand.name + RAW), tile % self._raw_copies
        return Work(
            node=operand.name,
            label=f"{operand.key('LR', half)}[{entry}]",
            iteration=tile,
            reads=(Access(_lds(operand), parts, copy=buffer % self.table.lds_buffers),),
            writes=(Access(target, (box,), copy=copy),),
            parts=parts,
            is_copy=True,
            counter=self.lds_counter,
            entries=1,
            issues=(Issue(Unit.LDS_READ, bytes=operand.read_bytes(half)),),
        )

    def _pack(
        self,
        steps: _Path,
        operand: FragmentMap,
        half: int,
        entry: int,
        waves: tuple[int, ...],
        tile: int,
    ) -> None:
        pack = operand.pack(half, entry, self.slices)
        if pack.box is None:
            steps.vector()
            return
        # The 4x4 MFMA that tf32 takes the error with lasts as long as two vector instructions.
        from_raw = pack.source.endswith(RAW)
        error = from_raw and pack.target.endswith("rest")
        copy = tile % self._raw_copies if from_raw else 0
        steps.add(
            Work(
                node=operand.name,
                label=f"{operand.key('Pack', half)}[{entry}]",
                iteration=tile,
                reads=(Access(_register(pack.source), (pack.box,), copy=copy),),
                writes=(Access(_register(pack.target), (pack.box,)),),
                parts=self._parts(operand, pack.box, waves),
                is_copy=True,
                issues=(Issue(Unit.VECTOR, 2 if error else 1),),
            )
        )

    def _mfma(self, number: int, waves: tuple[int, ...], turn: int) -> Work:
        a, a_half, b, b_half, product = self.products[number]
        boxes = (
            self.a.fragment(a, a_half, product, self.slices),
            self.b.fragment(b, b_half, product, self.slices),
        )
        sums = (boxes[0][0], boxes[1][0])
        parts = []
        for wave in waves:
            rows = [
                shifted((box[0],), (self._first(operand, wave),))[0]
                for operand, box in zip((self.a, self.b), boxes, strict=True)
            ]
            parts.append((*rows, *boxes[0][1:]))
        shape = "x".join(map(str, self.table.mi))
        dtype = "fp8" if self.table.dtype == "fp8" else "f16"
        return Work(
            node="C.next",
            label=f"MFMA {number}",
            iteration=turn,
            reads=(
                Access(_register("A"), (boxes[0],)),
                Access(_register("B"), (boxes[1],)),
            ),
            accumulates=(Access(_register("C"), (sums,)),),
            parts=tuple(parts),
            issues=(Issue(Unit.MATRIX, shape=f"{shape}_{dtype}"),),
        )

    def _sync(self, entry: int, which: str) -> Iterable[Step]:
        table, one = self.table, self.table.sync[entry]
        if one.barrier:
            yield Barrier()
            return
        if one.dscnt >= 0:
            # The assembler takes the largest count there is for any larger one: no wait.
            largest = self.target.counter(self.lds_counter).limit.value
            zero = which == "nll" and table.nll_zero_dscnt
            yield Wait(self.lds_counter, 0 if zero else min(largest, one.dscnt))
        if one.vlcnt >= 0:
            shift = {"main": 0, "ngl": table.nglshift, "nll": table.nllshift}[which]
            yield Wait(self.global_counter, max(0, one.vlcnt - shift))

    def _store(self, waves: tuple[int, ...]) -> Work:
        sides = [o.tiles * o.side for o in (self.a, self.b)]
        parts = tuple(
            tuple(
                (self._first(o, wave), self._first(o, wave) + side)
                for o, side in zip((self.a, self.b), sides, strict=True)
            )
            for wave in waves
        )
        return Work(
            node="C",
            label="store C",
            iteration=None,
            reads=(Access(_register("C")),),
            writes=(Access("out", parts),),
            parts=parts,
            is_copy=True,
            counter=self.global_counter,
            entries=1,
        )

    def _operand(self, name: str) -> FragmentMap:
        return self.a if name == "A" else self.b

    def _first(self, operand: FragmentMap, wave: int) -> int:
        across = self.table.wave_group[0]
        place = wave % across if operand.axis == 0 else wave // across
        return place * operand.tiles * operand.side

    def _parts(self, operand: FragmentMap, box: Box, waves: tuple[int, ...]) -> tuple[Box, ...]:
        rest = (0,) * (len(box) - 1)
        return tuple(shifted(box, (self._first(operand, wave), *rest)) for wave in waves)


def _lds(operand: FragmentMap) -> str:
    return f"LDS {operand.name}"


def _register(name: str) -> str:
    return f"registers {name}"


def _registers(table: Table, operand: FragmentMap) -> tuple[str, ...]:
    if not operand.packed:
        return ("",)
    return ("", RAW, " rest") if table.splits else ("", RAW)

"""The table: which instruction stands behind which MFMA.

A hipBLASLt main loop is written as ``{kind: [slots]}``: entry i of a list is the slot of the i-th
instruction of that kind, slot n lies between MFMA n and MFMA n + 1, and -1 before the first. Kinds
may have one list per code path. Waits and barriers are the entries of SYNC. Example, the shortest
loop of one MFMA tile::

    Table(tile=(32, 32, 64), ..., schedule={"SYNC": ((-1, 0),), "LRA0": ((0,),), ...})

Entries are what a person wrote; ``order`` gives them as the instructions of one path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pipeloom.errors import SpecError
from pipeloom.machine.dtypes import BF16, F32, FP8, FP16, DType
from pipeloom.plain import from_plain

KINDS = (
    "SYNC", "SNOP", "LCC", "GRIncA", "GRIncB", "GRA", "GRB", "LRSA", "LRSB", "LWSA", "LWSB",
    *(f"{kind}{operand}{half}" for kind in ("LR", "Pack") for operand in "AB" for half in "013"),
)  # fmt: skip
SLOT_ORDERS = ("table", "old")
DTYPES: dict[str, DType] = {"bf16": BF16, "fp16": FP16, "fp8": FP8, "tf32": F32}
"""The types of a table; tf32 is f32 in LDS."""
LAYOUTS = ("TN", "NN", "NT", "TT")
CODE_PATHS = (1, 2, 4)
LDS_BUFFERS = (2, 3)
FLAGS = ("SwapGlobalReadOrder", "UsePLRPack", "UseMFMAF32XEmulation", "MfmaInitCVgprs")


@dataclass(frozen=True, slots=True)
class SyncEntry:
    """An entry of SYNC: a barrier, or a wait; a count of -1 is not waited for."""

    barrier: bool = False
    dscnt: int = -1
    vlcnt: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A loop of four waves, one per SIMD; ``tile`` is M, N and K of an iteration.

    ``flags`` are the kernel flags that the table sets, ``slot_order`` says which kinds come first
    within a slot: those of the table's order, or (``old``) those with one list for all paths.
    """

    id: str
    tile: tuple[int, int, int]
    layout: str
    dtype: str
    mi: tuple[int, int, int]
    wave_group: tuple[int, int]
    wave_tile: tuple[int, int]
    slot_order: str = "table"
    num_code_paths: int
    num_mfma: int
    schedule: Mapping[str, tuple[tuple[int, ...], ...]]
    sync: tuple[SyncEntry, ...]
    snop: tuple[int, ...] = ()
    nglshift: int = 0
    nllshift: int = 0
    nll_zero_dscnt: bool = False
    mfma_reorder: tuple[int, ...] = ()
    flags: frozenset[str] = frozenset()
    lds_buffers: int = 2
    commit: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def splits(self) -> bool:
        """Whether every product is three, of high and low parts (tf32 from bf16)."""
        return self.dtype == "tf32"

    @property
    def k_steps(self) -> int:
        """MFMAs along K per iteration."""
        return self.tile[2] // self.mi[2]

    def slots(self, kind: str, path: int) -> tuple[int, ...]:
        """The list of a kind on a code path; a single list serves all."""
        lists = self.schedule.get(kind, ((),))
        return lists[path if len(lists) > 1 else 0]

    def loads(self, operand: str) -> str:
        """The kind that loads an operand: GRA loads B where the flag swaps them."""
        swapped = "SwapGlobalReadOrder" in self.flags
        return "GR" + ({"A": "B", "B": "A"}[operand] if swapped else operand)

    def order(self, path: int) -> Iterator[tuple[str, int]]:
        """(kind, entry) of one iteration as it is issued; MFMAs are ("MFMA", number)."""
        kinds = list(self.schedule)
        if self.slot_order == "old":
            kinds.sort(key=lambda kind: len(self.schedule[kind]) > 1)
        for slot in range(-1, self.num_mfma):
            if slot >= 0:
                yield "MFMA", slot
            for kind in kinds:
                for entry, at in enumerate(self.slots(kind, path)):
                    if at == slot:
                        yield kind, entry

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as ``read_table`` takes it."""
        sync: list[dict[str, Any]] = []
        for index, entry in zip(self.slots("SYNC", 0), self.sync, strict=True):
            counts = {"dscnt": entry.dscnt, "vlcnt": entry.vlcnt}
            sync.append({"index": index, **({"barrier": True} if entry.barrier else counts)})
        flags = dict.fromkeys(sorted(self.flags), True)
        schedule = {kind: [list(one) for one in all_] for kind, all_ in self.schedule.items()}
        special = {"schedule": schedule, "sync": sync, "flags": flags}
        values = {
            name: special.get(name, getattr(self, name)) for name in (f.name for f in fields(self))
        }
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def read_table(data: Mapping[str, Any]) -> Table:
    """The table of a JSON record; what else that holds is not looked at."""
    names = [f.name for f in fields(Table)]
    absent = [name for name in names if name not in (*_OPTIONAL, *data)]
    if absent:
        raise _wrong(absent[0], "is missing", "a table has " + ", ".join(names))
    record = {name: _whole(data[name]) for name in names if name in data}
    flags = record.pop("flags")
    if not isinstance(flags, Mapping) or not all(type(on) is bool for on in flags.values()):
        raise _wrong("flags", f"is {flags!r}", "give names with true or false, in braces")
    if isinstance(record["mi"], list):
        record["mi"] = record["mi"][:3]  # an MFMA's shape may have more behind M, N and K
    if isinstance(record["sync"], list):
        record["sync"] = [_entry(one) for one in record["sync"]]
    record |= {name: str(record[name]) for name in ("id", "commit") if name in record}
    table = from_plain(Table, record, name="a table")
    for one, slot in zip(data["sync"], table.slots("SYNC", 0), strict=False):
        if one.get("index", slot) != slot:
            index = one["index"]
            raise _wrong("sync", f"has index {index!r}", f"SYNC has {slot} there: make them agree")
    return replace(table, flags=frozenset(name for name, on in flags.items() if on))


def _whole(value: Any) -> Any:
    """With whole numbers as such: some records have 17.0."""
    if isinstance(value, list | tuple):
        return [_whole(one) for one in value]
    if isinstance(value, Mapping):
        return {key: _whole(one) for key, one in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _entry(value: Any) -> Any:
    """What an entry of SYNC does; a barrier waits for nothing else."""
    if not isinstance(value, Mapping):
        return value
    names = ("barrier",) if value.get("barrier") else ("barrier", "dscnt", "vlcnt")
    return {name: value[name] for name in names if name in value}


_OPTIONAL = ("snop", "lds_buffers", "commit")
"""What a record may leave out."""


def _wrong(field: str, what: str, hint: str) -> SpecError:
    return SpecError(f"not a table: {field} {what}", hint=hint, field=field)


def _check(table: Table) -> None:
    def broken(what: str, hint: str, field: str) -> SpecError:
        return SpecError(f"table {table.id}: {what}", hint=hint, field=field)

    for name in ("tile", "mi", "wave_group", "wave_tile"):
        if min(getattr(table, name)) < 1:
            raise broken(f"{name} {getattr(table, name)}", "use numbers of at least 1", name)
    for name in ("nglshift", "nllshift"):
        if getattr(table, name) < 0:
            raise broken(f"{name} {getattr(table, name)}", "use 0 or more", name)
    if any(min(one.dscnt, one.vlcnt) < -1 for one in table.sync):
        raise broken("a wait for less than nothing", "use counts of 0 or more, or -1", "sync")
    waves = table.wave_group[0] * table.wave_group[1]
    for axis in (0, 1):
        rows = table.wave_tile[axis] * table.mi[axis] * table.wave_group[axis]
        if rows != table.tile[axis]:
            raise broken(
                f"{table.wave_group[axis]} waves of {table.wave_tile[axis]} tiles of "
                f"{table.mi[axis]} make {rows}, not {table.tile[axis]}",
                "wave tile times wave group times MFMA is the tile",
                "wave_tile",
            )
    if waves != 4:
        raise broken(f"{waves} waves", "a table is for four waves", "wave_group")
    products = 3 if table.splits else 1
    needed = table.wave_tile[0] * table.wave_tile[1] * table.k_steps * products
    if table.num_mfma != needed:
        raise broken(f"{table.num_mfma} MFMAs", f"the tile needs {needed}", "num_mfma")
    if table.tile[2] % table.mi[2]:
        raise broken(f"K of {table.tile[2]}", f"use a multiple of {table.mi[2]}", "tile")
    allowed: tuple[tuple[str, Collection[Any], Collection[Any]], ...] = (
        ("layout", (table.layout,), LAYOUTS),
        ("dtype", (table.dtype,), DTYPES),
        ("slot_order", (table.slot_order,), SLOT_ORDERS),
        ("num_code_paths", (table.num_code_paths,), CODE_PATHS),
        ("lds_buffers", (table.lds_buffers,), LDS_BUFFERS),
        ("flags", sorted(table.flags), FLAGS),
        ("snop", table.snop, range(16)),  # s_nop has 4 bits
    )
    for name, values, known in allowed:
        for value in values:
            if value not in known:
                raise broken(f"{name} {value!r}", f"use {', '.join(map(str, known))}", name)
    if table.mfma_reorder and sorted(table.mfma_reorder) != list(range(needed)):
        raise broken("mfma_reorder is no permutation", "name each MFMA once", "mfma_reorder")
    for kind, lists in table.schedule.items():
        if kind not in KINDS:
            raise broken(f"unknown kind {kind!r}", f"kinds are {', '.join(KINDS)}", kind)
        if len(lists) not in (1, table.num_code_paths) or len({len(one) for one in lists}) != 1:
            raise broken(
                f"{kind} has {len(lists)} lists for {table.num_code_paths} code paths",
                "give one list, or one of the same length per code path",
                kind,
            )
        for one in lists:
            if any(not -1 <= slot < table.num_mfma for slot in one):
                raise broken(f"{kind} leaves the loop", f"use -1 to {table.num_mfma - 1}", kind)
            if not kind.startswith("Pack") and list(one) != sorted(one):
                raise broken(f"{kind} goes back", "give its slots in ascending order", kind)
    for kind, entries in (("SYNC", table.sync), ("SNOP", table.snop)):
        if len(table.slots(kind, 0)) != len(entries) or len(table.schedule.get(kind, ((),))) > 1:
            raise broken(
                f"{len(table.slots(kind, 0))} entries of {kind} for {len(entries)} instructions",
                "give one list, with a slot for each instruction",
                kind,
            )

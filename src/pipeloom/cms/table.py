"""The table: which instruction stands behind which MFMA.

A hipBLASLt main loop is written as ``{kind: [slots]}``: entry i of a list is the slot of the i-th
instruction of that kind, slot n lies between MFMA n and MFMA n + 1, and -1 before the first. Kinds
may have one list per code path. Waits and barriers are the entries of SYNC. Example, the shortest
loop of one MFMA tile::

    Table(tile=(32, 32, 64), ..., schedule={"SYNC": ((-1, 0),), "LRA0": ((0,),), ...})

Entries are what a person wrote; ``order`` gives them as the instructions of one path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeloom.errors import SpecError
from pipeloom.machine.dtypes import BF16, F32, FP8, FP16, DType

KINDS = (
    "SYNC", "SNOP", "LCC", "GRIncA", "GRIncB", "GRA", "GRB", "LRSA", "LRSB", "LWSA", "LWSB",
    *(f"{kind}{operand}{half}" for kind in ("LR", "Pack") for operand in "AB" for half in "013"),
)  # fmt: skip
SLOT_ORDERS = ("table", "old")
DTYPES: dict[str, DType] = {"bf16": BF16, "fp16": FP16, "fp8": FP8, "tf32": F32}
"""The types of a table; tf32 is f32 in LDS."""


@dataclass(frozen=True, slots=True)
class Sync:
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
    num_code_paths: int
    num_mfma: int
    schedule: Mapping[str, tuple[tuple[int, ...], ...]]
    sync: tuple[Sync, ...]
    snop: tuple[int, ...] = ()
    nglshift: int = 0
    nllshift: int = 0
    nll_zero_dscnt: bool = False
    mfma_reorder: tuple[int, ...] = ()
    flags: frozenset[str] = frozenset()
    lds_buffers: int = 2
    slot_order: str = "table"
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
        return {
            "id": self.id,
            "tile": list(self.tile),
            "layout": self.layout,
            "dtype": self.dtype,
            "mi": list(self.mi),
            "wave_group": list(self.wave_group),
            "wave_tile": list(self.wave_tile),
            "slot_order": self.slot_order,
            "num_code_paths": self.num_code_paths,
            "num_mfma": self.num_mfma,
            "schedule": {kind: [list(one) for one in all_] for kind, all_ in self.schedule.items()},
            "sync": sync,
            "snop": list(self.snop),
            "nglshift": self.nglshift,
            "nllshift": self.nllshift,
            "nll_zero_dscnt": self.nll_zero_dscnt,
            "mfma_reorder": list(self.mfma_reorder),
            "flags": dict.fromkeys(sorted(self.flags), True),
            "lds_buffers": self.lds_buffers,
            "commit": self.commit,
        }


def read_table(data: Mapping[str, Any], **missing: Any) -> Table:
    """The table of a JSON record; ``missing`` gives fields that it leaves out."""
    fields = {**missing, **data}
    try:
        return Table(
            id=str(fields["id"]),
            tile=tuple(fields["tile"]),
            layout=fields["layout"],
            dtype=fields["dtype"],
            mi=tuple(fields["mi"][:3]),
            wave_group=tuple(fields["wave_group"]),
            wave_tile=tuple(fields["wave_tile"]),
            num_code_paths=fields["num_code_paths"],
            num_mfma=fields["num_mfma"],
            schedule={
                kind: tuple(tuple(one) for one in lists)
                for kind, lists in fields["schedule"].items()
            },
            sync=tuple(_sync(entry) for entry in fields["sync"]),
            snop=tuple(fields.get("snop", ())),
            nglshift=int(fields["nglshift"]),
            nllshift=int(fields["nllshift"]),
            nll_zero_dscnt=fields["nll_zero_dscnt"],
            mfma_reorder=tuple(fields["mfma_reorder"]),
            flags=frozenset(name for name, value in fields["flags"].items() if value),
            lds_buffers=fields.get("lds_buffers", 2),
            slot_order=fields["slot_order"],
            commit=fields.get("commit", ""),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise SpecError(
            f"not a table: {error!r}",
            hint="give the record of a table: tile, schedule, sync and the rest",
            field=str(error.args[0]) if isinstance(error, KeyError) else "table",
        ) from error


def _sync(entry: Mapping[str, Any]) -> Sync:
    if entry.get("barrier"):
        return Sync(barrier=True)
    return Sync(dscnt=entry.get("dscnt", -1), vlcnt=entry.get("vlcnt", -1))


def _check(table: Table) -> None:
    def broken(what: str, hint: str, field: str) -> SpecError:
        return SpecError(f"table {table.id}: {what}", hint=hint, field=field)

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
    if table.slot_order not in SLOT_ORDERS:
        raise broken(f"slot order {table.slot_order!r}", "use table or old", "slot_order")
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
    for kind, entries in (("SYNC", table.sync), ("SNOP", table.snop)):
        if len(table.slots(kind, 0)) != len(entries) or len(table.schedule.get(kind, ((),))) > 1:
            raise broken(
                f"{len(table.slots(kind, 0))} entries of {kind} for {len(entries)} instructions",
                "give one list, with a slot for each instruction",
                kind,
            )

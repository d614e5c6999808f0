"""What the specification's system ends in: one compiled schedule, as immutable plain data.

``reference.lift`` makes a ``Program`` of it, which judges, writers and pages take.
``to_dict``/``from_dict`` carry it through a file unchanged.

    compiled = compile_schedule(DeclarativeSchedule())
    for entry in compiled.kernel:
        print(entry.time_slot, entry.op)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeloom.checks import check_int
from pipeloom.errors import StructureError
from pipeloom.notebook import fragment
from pipeloom.plain import from_plain, to_plain
from pipeloom.program import Move, SyncMethod
from pipeloom.reference.blocks import PipelineProgram
from pipeloom.reference.config import PipelineConfig
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.graph import DepEdge, LoopBody
from pipeloom.reference.ops import OpDesc, OpTag, Phase
from pipeloom.reference.schedule_config import ScheduleConfig


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """An op at its place: ``time_slot`` counts from 0 within its phase."""

    op: OpDesc
    time_slot: int
    phase: Phase
    is_prefetch: bool = False


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a strategy claims about its order, in cycles and registers of the cost model.

    ``proved`` means that no legal order has a smaller makespan (and, at that makespan, a smaller
    VGPR peak unless the order met the lower bound outright); ``nodes`` is the search effort.
    """

    strategy: str
    makespan: int
    vgpr_peak: int
    lower_bound: int
    proved: bool
    nodes: int

    @property
    def measure(self) -> str:
        """What ``makespan`` is, in words."""
        return "kernel pass" if self.strategy == "modulo" else "makespan"


@dataclass(frozen=True, slots=True)
class PhaseCounts:
    """Synchronisation in one phase. ``coalesced_waits`` counts runs of adjacent waits as one."""

    entries: int
    wait_vm: int
    wait_lgkm: int
    coalesced_waits: int
    barriers: int
    fences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledSchedule:
    """The software pipeline: three lists of entries, and how they came about."""

    schedule: str
    config: PipelineConfig
    schedule_config: ScheduleConfig
    body: tuple[OpDesc, ...]
    edges: tuple[DepEdge, ...]
    order: tuple[int, ...]
    certificate: Certificate
    program: PipelineProgram | None
    prologue: tuple[ScheduleEntry, ...]
    kernel: tuple[ScheduleEntry, ...]
    epilogue: tuple[ScheduleEntry, ...]
    kernel_deps: tuple[DepEdge, ...]
    warp_stagger_index: int
    geometry: KernelGeometry | None = None
    arch: str | None = None
    """The one chip it is for; None where its order and counts hold on any."""
    interrupted: bool = False
    """Whether Ctrl-C ended the search for its order."""
    synchronised: SyncMethod = SyncMethod.REFERENCE
    moved: tuple[Move, ...] = ()
    barriers_added: int = 0
    notes: tuple[str, ...] = ()
    """For reading only."""

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.body))):
            raise StructureError(
                f"CompiledSchedule.order is not a permutation of the {len(self.body)} ops",
                hint="each op index of the body must stand in it exactly once",
                field="order",
            )
        for phase in Phase:
            for slot, entry in enumerate(self.phase(phase)):
                if entry.time_slot != slot or entry.phase is not phase:
                    raise StructureError(
                        f"{phase.name.lower()}[{slot}] has time_slot {entry.time_slot} and phase "
                        f"{entry.phase.name}",
                        hint="number the entries of a phase 0, 1, 2, ...",
                        field=f"{phase.name.lower()}[{slot}]",
                    )
        hint = f"an index into the prologue, or more than {len(self.prologue)} for no stagger"
        check_int("CompiledSchedule", "warp_stagger_index", self.warp_stagger_index, 0, None, hint)
        self._check_edges("edges", self.edges, len(self.body))
        self._check_edges("kernel_deps", self.kernel_deps, max(len(self.kernel), len(self.body)))

    def _check_edges(self, field: str, edges: tuple[DepEdge, ...], count: int) -> None:
        for number, edge in enumerate(edges):
            last = max(edge.producer, edge.consumer)
            if last >= count:
                raise StructureError(
                    f"CompiledSchedule.{field}[{number}] joins {edge.producer} and "
                    f"{edge.consumer}, but there are only {count} to join",
                    hint=f"indices run from 0 to {count - 1}",
                    field=f"{field}[{number}]",
                )

    def __repr__(self) -> str:
        entries = " + ".join(str(len(self.phase(phase))) for phase in Phase)
        return f"<CompiledSchedule {self.schedule}: {len(self.body)} ops, {entries} entries>"

    def _repr_html_(self) -> str:
        """For notebooks: where it came from, a trip in time, and what each phase holds."""
        claim = self.certificate
        tile = self.geometry
        shape = "no tile shape" if tile is None else f"tile {tile.BM}x{tile.BN}x{tile.BK}"
        best = ", proved least" if claim.proved else ""
        text = f"{shape}, {claim.strategy} order, {claim.measure} {claim.makespan}{best}"
        rows = []
        for phase in Phase:
            held = self.counts(phase)
            waits = held.wait_vm + held.wait_lgkm
            rows.append((phase.name.lower(), held.entries, waits, held.barriers, held.fences))
        columns = ("phase", "entries", "waits", "barriers", "fences")
        return fragment(self.schedule, text, columns, rows, drawn=self)

    def phase(self, phase: Phase) -> tuple[ScheduleEntry, ...]:
        """The entries of one phase."""
        return (self.prologue, self.kernel, self.epilogue)[phase]

    @property
    def loop_body(self) -> LoopBody:
        """The dependence graph of one iteration."""
        return LoopBody(self.body, self.edges)

    def counts(self, phase: Phase) -> PhaseCounts:
        """How many waits, barriers and fences a phase holds."""
        tags = [entry.op.tag for entry in self.phase(phase)]
        waits = {OpTag.WAIT_VM, OpTag.WAIT_LGKM}
        fences = {OpTag.SET_PRIO, OpTag.SCHEDULE_BARRIER, OpTag.SCHED_GROUP_BARRIER}
        runs = sum(
            1
            for at, tag in enumerate(tags)
            if tag in waits and (at == 0 or tags[at - 1] not in waits)
        )
        return PhaseCounts(
            entries=len(tags),
            wait_vm=tags.count(OpTag.WAIT_VM),
            wait_lgkm=tags.count(OpTag.WAIT_LGKM),
            coalesced_waits=runs,
            barriers=tags.count(OpTag.BARRIER),
            fences=sum(tag in fences for tag in tags),
        )

    def ops_per_block(self) -> tuple[int, ...]:
        """How many entries each block of the kernel expands to; empty without blocks."""
        if self.program is None:
            return ()
        return tuple(len(self.program.expand_block(i)) for i in range(len(self.program.blocks)))

    def to_dict(self) -> dict[str, Any]:
        """Plain data under the field names; enums as their integer codes."""
        plain = to_plain(self)
        assert isinstance(plain, dict)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CompiledSchedule:
        """The schedule that ``to_dict`` described; raises ``SpecError`` naming a bad key."""
        return from_plain(cls, data)

    def to_json(self) -> str:
        """``to_dict`` as JSON; the same schedule always gives the same bytes."""
        return json.dumps(self.to_dict(), indent=1, sort_keys=True) + "\n"

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
    """An op at its place in a phase."""

    op: OpDesc
    """The op."""
    time_slot: int
    """Its place in the phase, from 0."""
    phase: Phase
    """The phase."""
    is_prefetch: bool = False
    """Whether it is a load for a later iteration."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a strategy claims about its order, by the cost model."""

    strategy: str
    """The strategy's name."""
    makespan: int
    """Cycles of one iteration in this order."""
    vgpr_peak: int
    """The most registers per lane live at once."""
    lower_bound: int
    """Cycles that no legal order is below."""
    proved: bool
    """Whether no legal order has a smaller makespan (and, at that makespan, a smaller VGPR peak
    unless the order met the lower bound outright)."""
    nodes: int
    """The search effort: nodes of the search tree."""

    @property
    def measure(self) -> str:
        """What ``makespan`` is, in words."""
        return "kernel pass" if self.strategy == "modulo" else "makespan"


@dataclass(frozen=True, slots=True)
class PhaseCounts:
    """How much synchronisation one phase holds."""

    entries: int
    """All its entries."""
    wait_vm: int
    """Its ``vmcnt`` waits."""
    wait_lgkm: int
    """Its ``lgkmcnt`` waits."""
    coalesced_waits: int
    """Its waits, runs of adjacent ones counted once."""
    barriers: int
    """Its barriers."""
    fences: int
    """Its compiler fences, hints and priorities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledSchedule:
    """The software pipeline: three lists of entries, and how they came about."""

    schedule: str
    """The schedule's name."""
    config: PipelineConfig
    """The pipeline's shape that it was compiled for."""
    schedule_config: ScheduleConfig
    """The scheduler's knobs that it was compiled with."""
    body: tuple[OpDesc, ...]
    """The ops of one iteration as declared and annotated."""
    edges: tuple[DepEdge, ...]
    """What must follow what."""
    order: tuple[int, ...]
    """Op indices in the order that the strategy chose."""
    certificate: Certificate
    """What the strategy claims of that order."""
    program: PipelineProgram | None
    """The blocks; None for a single-buffered schedule."""
    prologue: tuple[ScheduleEntry, ...]
    """What runs before the loop."""
    kernel: tuple[ScheduleEntry, ...]
    """The loop."""
    epilogue: tuple[ScheduleEntry, ...]
    """What runs after the loop."""
    kernel_deps: tuple[DepEdge, ...]
    """Dependences that the kernel's entries show, by entry."""
    warp_stagger_index: int
    """How many prologue entries run before the second wave group drops one barrier behind; more
    than the prologue has means no stagger."""
    geometry: KernelGeometry | None = None
    """The tile shape, where it is for one; simulating and emitting need it."""
    arch: str | None = None
    """The one chip it is for; None where its order and counts hold on any."""
    own_kernel: bool = False
    """Whether the schedule's ``kernel`` hook gave a model of its own, which proofs then ask for."""
    interrupted: bool = False
    """Whether Ctrl-C ended the search for its order."""
    synchronised: SyncMethod = SyncMethod.REFERENCE
    """Who placed its waits and barriers."""
    moved: tuple[Move, ...] = ()
    """Ops that synchronisation moved."""
    barriers_added: int = 0
    """Barriers that synchronisation added where moving did not suffice."""
    notes: tuple[str, ...] = ()
    """Sentences for people, such as knobs without effect."""

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
        """The entries of one phase.

        Args:
            phase: Which one.
        """
        return (self.prologue, self.kernel, self.epilogue)[phase]

    @property
    def loop_body(self) -> LoopBody:
        """The dependence graph of one iteration."""
        return LoopBody(self.body, self.edges)

    def counts(self, phase: Phase) -> PhaseCounts:
        """How many waits, barriers and fences a phase holds.

        Args:
            phase: Which one.
        """
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
        """The schedule that ``to_dict`` described; raises ``SpecError`` naming a bad key.

        Args:
            data: What ``to_dict`` gave.
        """
        return from_plain(cls, data)

    def to_json(self) -> str:
        """``to_dict`` as JSON; the same schedule always gives the same bytes."""
        return json.dumps(self.to_dict(), indent=1, sort_keys=True) + "\n"

"""Everything the report page shows, as one plain dictionary.

    data = page_data(compiled, verify(compiled), simulate(compiled))
    html = render_page(data)

Building the data and filling the page are apart so that tests can ask questions of the data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from functools import cached_property
from typing import Any

from pipeloom.errors import ConfigError
from pipeloom.judge.simulate.estimate import Estimate
from pipeloom.judge.simulate.lower import simulate
from pipeloom.judge.simulate.trace import Phase as TracePhase
from pipeloom.judge.simulate.trace import Trace
from pipeloom.judge.verify.findings import Finding, Place, Status, Verdict
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.config import PipelineConfig, ScheduleConfig
from pipeloom.reference.kernels import Kernel, kernel_for
from pipeloom.reference.lift import SECTIONS, entry_of, lift
from pipeloom.reference.ops import OpDesc, OpTag, Phase
from pipeloom.show.headers import limit_text, no_loop_text, sync_text, tile_text
from pipeloom.show.labels import Labels
from pipeloom.show.page_timeline import timeline_data
from pipeloom.show.segments import EntryStall, stalls_by_entry

TIMELINE_ITERATIONS = 4
_PHASE_OF = {
    TracePhase.PROLOGUE: Phase.PROLOGUE,
    TracePhase.LOOP: Phase.KERNEL,
    TracePhase.EPILOGUE: Phase.EPILOGUE,
}
_MEANING = {
    Status.PROVED: "Waits and barriers alone order every pair of accesses, for every trip count, "
    "latency and order of waves.",
    Status.TIMING: "Nothing orders some pairs of accesses. Under the cost model's latencies they "
    "do not meet; on a slower load or a faster wave they may.",
    Status.RACE: "Some accesses can meet under the cost model's latencies, or the result is wrong "
    "in every run.",
}


def page_data(
    compiled: CompiledSchedule,
    verdict: Verdict,
    trace: Trace | None,
    *,
    kernel: Kernel | None = None,
    timeline_iterations: int = TIMELINE_ITERATIONS,
    jitter: float = 0.0,
    seed: int = 0,
    unsimulated: str = "",
    estimate: Estimate | None = None,
    elements: str | None = None,
    shown: Trace | None = None,
    stream: str = "",
) -> dict[str, Any]:
    """What the page shows of a schedule, its verdict and its simulation.

    ``trace`` gives the figures and the stalls. The timeline comes from a run of at most
    ``timeline_iterations`` iterations of the same programs, so that prologue, steady loop and
    epilogue are seen whole; give it the ``jitter`` and ``seed`` of ``trace``. Without a trace the
    page says ``unsimulated`` instead. ``elements`` is that of ``headers.tile_text``.

    A trace of other programs than the schedule's own, as of an emitted kernel, needs ``shown``, the
    run for the timeline, and ``stream``, the name of what was run.
    """
    if timeline_iterations < 1:
        raise ConfigError(
            f"timeline_iterations = {timeline_iterations}",
            hint="show at least one iteration",
            field="timeline_iterations",
        )
    first_entry = _first_entries(compiled)
    stalls = () if trace is None else stalls_by_entry(trace)
    op_of = body_ops_of_entries(compiled)
    timeline = None
    if trace is not None:
        model = kernel_for(compiled) if kernel is None else kernel
        if shown is None and trace.iterations > timeline_iterations:
            k_tiles = model.tiles(timeline_iterations)
            program = lift(compiled, model, trace.machine)
            shown = simulate(program, iterations=k_tiles, jitter=jitter, seed=seed)
        timeline = timeline_data(compiled, model, shown or trace, first_entry)
    return {
        "meta": {**_meta(compiled, verdict, trace, elements), "stream": stream},
        "headline": _headline(compiled, verdict, trace),
        "unsimulated": "" if trace is not None else unsimulated,
        "entries": _entries(compiled, stalls, op_of, first_entry),
        "ops": _ops(compiled),
        "edges": [[e.producer, e.consumer, int(e.kind), e.loop_distance] for e in compiled.edges],
        "critical": list(compiled.loop_body.critical_path),
        "timeline": timeline,
        "verdict": _verdict(verdict, _Entries(compiled, first_entry)),
        "stalls": [_stall_row(row, first_entry) for row in stalls],
        "utilisation": [] if trace is None else [[u, s] for u, s in _shares(trace).items()],
        "estimate": None if estimate is None else _estimate(estimate),
        "knobs": _knobs(compiled),
        "notes": list(compiled.notes),
    }


def _first_entries(compiled: CompiledSchedule) -> dict[Phase, int]:
    first, count = {}, 0
    for phase in Phase:
        first[phase] = count
        count += len(compiled.phase(phase))
    return first


def _meta(
    compiled: CompiledSchedule, verdict: Verdict, trace: Trace | None, elements: str | None
) -> dict[str, Any]:
    machine = "" if trace is None else f"{trace.machine.chip} ({trace.machine.arch})"
    return {
        "schedule": compiled.schedule,
        "kernel": verdict.kernel,
        "machine": machine,
        "tile": tile_text(compiled, elements),
        "sync": sync_text(compiled),
        "strategy": compiled.certificate.strategy,
        "waves": 0 if trace is None else len(trace.programs),
        "per_iteration": _tiles(compiled),
        "iterations": 0 if trace is None else trace.iterations,
        "cycles": 0 if trace is None else trace.total_cycles,
        "prologue": 0 if trace is None else trace.prologue_cycles,
        "epilogue": 0 if trace is None else trace.epilogue_cycles,
    }


def _headline(compiled: CompiledSchedule, verdict: Verdict, trace: Trace | None) -> list[list[str]]:
    """Value, name, explanation: the figures at the top."""
    counts = compiled.counts(Phase.KERNEL)
    certificate = compiled.certificate
    rows = []
    if trace is not None and not trace.iterations:
        rows.append(
            [
                f"{trace.total_cycles}",
                "cycles in all",
                f"{no_loop_text(kernel_for(compiled).tiles(0))}: prologue {trace.prologue_cycles} "
                f"and epilogue {trace.epilogue_cycles} only",
            ]
        )
    elif trace is not None:
        busy = max(trace.steady_matrix_efficiency(), default=0.0)
        title, limit = limit_text(trace.limiting_unit())
        rows += [
            [
                f"{trace.steady_cycles_per_iteration:.0f}",
                "cycles per iteration",
                f"steady state of the simulated loop; an iteration sums {_tiles(compiled)}",
            ],
            [f"{busy:.1%}", "matrix unit busy", "of the steady loop, busiest SIMD"],
            [
                limit,
                title,
                "the busiest unit if over 90 % busy, else what the waves wait for",
            ],
        ]
    rows.append([verdict.status.name, "verdict", _MEANING[verdict.status]])
    rows += [
        [
            f"{counts.coalesced_waits} / {counts.barriers}",
            "waits / barriers",
            "per iteration of one wave; adjacent waits count as one",
        ],
        [
            f"{certificate.makespan}",
            f"{certificate.measure}, proved optimal" if certificate.proved else certificate.measure,
            f"cycles of the cost model, order by {certificate.strategy}; lower bound "
            f"{certificate.lower_bound}",
        ],
    ]
    return rows


def _tiles(compiled: CompiledSchedule) -> str:
    """``2 K tiles``: what one iteration sums."""
    tiles = kernel_for(compiled).tiles_per_iteration
    return f"{tiles} K tile{'' if tiles == 1 else 's'}"


def body_ops_of_entries(compiled: CompiledSchedule) -> dict[tuple[Phase, int], int]:
    """Which op of the body each data entry carries out, by phase and slot.

    Ops that look alike (the MMA grid of each K tile) are told apart by their turn: the n-th such
    entry of a phase is the n-th such op of the schedule's order, starting over past the last.
    """
    places: dict[tuple[int, ...], list[int]] = {}
    for op in compiled.order:
        places.setdefault(_identity(compiled.body[op]), []).append(op)
    found = {}
    for phase in Phase:
        turn: Counter[tuple[int, ...]] = Counter()
        for slot, entry in enumerate(compiled.phase(phase)):
            key = _identity(entry.op)
            if key in places and not entry.op.is_framework:
                found[phase, slot] = places[key][turn[key] % len(places[key])]
                turn[key] += 1
    return found


def _identity(op: OpDesc) -> tuple[int, ...]:
    return (op.tag, op.stage, op.subtile)


def _entries(
    compiled: CompiledSchedule,
    stalls: tuple[EntryStall, ...],
    op_of: Mapping[tuple[Phase, int], int],
    first_entry: Mapping[Phase, int],
) -> list[list[Any]]:
    """Phase, slot, label, role, op of the body or -1, stall cycles."""
    labels = Labels(compiled)
    lost: dict[int, float] = {}
    for row in stalls:
        if row.entry is not None:
            at = first_entry[_PHASE_OF[row.phase]] + row.entry
            lost[at] = lost.get(at, 0.0) + row.mean
    rows: list[list[Any]] = []
    for phase in Phase:
        for slot, entry in enumerate(compiled.phase(phase)):
            stall = round(lost.get(len(rows), 0.0), 1)
            op = op_of.get((phase, slot), -1)
            rows.append([int(phase), slot, labels.of(entry.op), _role(entry.op), op, stall])
    return rows


def _role(op: OpDesc) -> str:
    return "barrier" if op.tag == OpTag.BARRIER else op.role.name.lower()


def _ops(compiled: CompiledSchedule) -> list[list[Any]]:
    """Label, role, latency, ASAP, slack, place in the order."""
    body, labels = compiled.loop_body, Labels(compiled)
    place = {op: at for at, op in enumerate(compiled.order)}
    return [
        [labels.of(op), _role(op), op.latency, body.asap[i], body.slack[i], place.get(i, i)]
        for i, op in enumerate(body.ops)
    ]


def _verdict(verdict: Verdict, entries: _Entries) -> dict[str, Any]:
    shortest = verdict.shortest()
    findings = verdict.findings
    return {
        "status": verdict.status.name,
        "meaning": _MEANING[verdict.status],
        "coverage": verdict.coverage.describe(),
        "findings": [_finding(f, entries) for f in findings],
        "examples": [_example(f, entries) for f in findings],
        "shortest": -1 if shortest is None else findings.index(shortest),
        "dead": [str(item) for item in verdict.dead_work],
    }


def _example(finding: Finding, entries: _Entries) -> dict[str, Any] | None:
    if finding.counterexample is None:
        return None
    steps = finding.counterexample.steps
    return {
        "title": finding.where,
        "trips": finding.counterexample.trips,
        "waves": sorted({step.wave for step in steps}),
        "steps": [[s.wave, s.text, _place(s.place, entries)] for s in steps],
    }


def _finding(finding: Finding, entries: _Entries) -> list[Any]:
    """Status, kind, where, why, margin or null, trips, instances, first, second."""
    return [
        finding.status.name,
        finding.kind.value,
        finding.where,
        finding.why,
        finding.margin,
        finding.trips,
        finding.instances,
        _place(finding.first, entries),
        _place(finding.second, entries),
    ]


class _Entries:
    """Which entry of the schedule a place of its program is."""

    def __init__(self, compiled: CompiledSchedule, first: Mapping[Phase, int]) -> None:
        self._compiled = compiled
        self._first = {SECTIONS[phase]: number for phase, number in first.items()}

    @cached_property
    def _program(self) -> Program:
        return lift(self._compiled)

    def number(self, place: Place) -> int:
        """-1 for what is no entry: the kernel's own barriers, the stores."""
        if place.section not in self._first or place.slot < 0:
            return -1
        groups = self._program.groups
        group = next(n for n, g in enumerate(groups) if place.wave in g.waves)
        slot = entry_of(self._program, group, place.section, place.slot)
        return -1 if slot is None else self._first[place.section] + slot


def _place(place: Place | None, entries: _Entries) -> list[Any] | None:
    """Wave, entry or -1, iteration or null, words."""
    if place is None:
        return None
    return [place.wave, entries.number(place), place.iteration, str(place)]


def _stall_row(row: EntryStall, first_entry: Mapping[Phase, int]) -> list[Any]:
    """Entry or -1, where, label, mean, worst wave, cause, waited for."""
    phase = _PHASE_OF[row.phase]
    entry = -1 if row.entry is None else first_entry[phase] + row.entry
    slot = "" if row.entry is None else f"[{row.entry}]"
    return [
        entry,
        f"{phase.name.lower()}{slot}",
        row.label,
        round(row.mean, 1),
        round(row.worst, 1),
        row.cause.text,
        row.waited_for,
    ]


def _shares(trace: Trace) -> dict[str, float]:
    return {name: round(share, 4) for name, share in trace.utilisation().items()}


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "tflops": round(estimate.tflops, 1),
        "clock": estimate.clock_ghz,
        "microseconds": round(estimate.microseconds, 1),
        "bound": estimate.bound,
        "workgroups": estimate.workgroups,
        "rounds": estimate.rounds,
        "assumptions": list(estimate.assumptions),
    }


def _knobs(compiled: CompiledSchedule) -> list[list[Any]]:
    """Title and rows of name, value, whether it differs from the default."""
    default = ScheduleConfig()
    scheduler = [
        [f.name, _text(value), value != getattr(default, f.name)]
        for f in fields(ScheduleConfig)
        for value in (getattr(compiled.schedule_config, f.name),)
    ]
    pipeline = [
        [f.name, _text(getattr(compiled.config, f.name)), False] for f in fields(PipelineConfig)
    ]
    groups = [["schedule_config", scheduler], ["config", pipeline]]
    if compiled.geometry is not None:
        shape = compiled.geometry
        groups.append(
            ["geometry", [[f.name, _text(getattr(shape, f.name)), False] for f in fields(shape)]]
        )
    return groups


def _text(value: object) -> str:
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, bool):
        return "true" if value else "false"
    if hasattr(value, "__dataclass_fields__"):
        parts = (f"{f.name} {_text(getattr(value, f.name))}" for f in fields(value))  # type: ignore[arg-type]
        return ", ".join(parts)
    return str(value)

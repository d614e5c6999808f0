"""Everything the report page shows, as one plain dictionary.

    data = page_data(program, verdict, simulate(program))
    html = fill_page(data)

Building the data and filling the page are apart so that tests can ask questions of the data.

A declared value in one line: ``C.next = matmul(A, B) + C, f32 256x256``.

The assembly of the report page: every line of the kernel, and the row of the step it serves.

Texts are there once, rows of steps in runs, because there are thousands of lines;
``assets/types.js`` unpacks them and must change together with this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypedDict, Unpack

from pipeloom.errors import ConfigError
from pipeloom.judge.simulate.estimate import Estimate
from pipeloom.judge.simulate.issued import simulate
from pipeloom.judge.simulate.trace import Trace
from pipeloom.judge.verify.findings import CounterexampleStep, Status, StepPlace, Verdict
from pipeloom.machine_code.written_lines import WrittenLine
from pipeloom.program import Node, NodeKind, Program, Work
from pipeloom.show.cards import Card, speed_cards
from pipeloom.show.dependence_graph import Graph, graph_of
from pipeloom.show.headers import no_loop_text, sync_text, tile_text
from pipeloom.show.page_parts import lost_cycles, verdict_data, whole_page
from pipeloom.show.page_timeline import timeline_data
from pipeloom.show.segments import StepStall, stalls_by_step
from pipeloom.show.step_rows import (
    Listing,
    advance,
    listing,
    loop_counts,
    main_loop,
    offset_text,
    pace,
    tiles_text,
    trip_counts,
)

_KINDS = {
    NodeKind.STREAM: "a tile of memory per iteration",
    NodeKind.RESIDENT: "a tile of memory",
    NodeKind.SCALAR: "an argument",
    NodeKind.CONSTANT: "a constant",
    NodeKind.LEFT: "elements left",
    NodeKind.SIZE: "elements in all",
}


TIMELINE_ITERATIONS = 4
_MEANING = {
    Status.PROVED: "{claim}. Waits and barriers alone order every pair of accesses, whatever the "
    "latencies and the order of waves.",
    Status.TIMING: "Nothing orders some pairs of accesses. In the model they do not meet; another "
    "timing lets them.",
    Status.RACE: "Nothing orders some pairs of accesses and they meet in the model, or the result "
    "is always wrong.",
}
Knobs = Sequence[tuple[str, Sequence[tuple[str, str, bool]]]]
"""Titles, and below each name, value and whether it was changed."""


class PageOptions(TypedDict, total=False):
    """What a page can be told besides the program, its verdict and its trace.

    The timeline comes from ``shown``, or else from a run of at most ``timeline_iterations``
    iterations of the same program, so that all sections are seen whole; give that the ``jitter``
    and ``seed`` of the trace. Without a trace the page says ``unsimulated`` instead. A trace of
    other instructions than the program's own, as of an emitted kernel, needs ``shown``, and
    ``stream``, the name of what was run. ``tile`` and ``sync`` are for headers, where the program
    itself does not know; ``knobs`` are the settings that made it. ``cards`` are further figures at
    the top. ``variant`` is its name on a page of several. ``lines`` are those of the kernel called
    ``kernel``, or ``unwritten`` says why there is none. A trace of that kernel knows of each
    instruction which line it is.
    """

    shown: Trace | None
    timeline_iterations: int
    jitter: float
    seed: int
    unsimulated: str
    estimate: Estimate | None
    tile: str
    sync: str
    stream: str
    knobs: Knobs
    cards: Sequence[Card]
    variant: str
    kernel: str
    lines: Sequence[WrittenLine]
    unwritten: str


class _Page(NamedTuple):
    """What the parts of the page are made from."""

    program: Program
    verdict: Verdict | None
    trace: Trace | None
    rows: Listing
    stalls: tuple[StepStall, ...]


def page_data(
    program: Program,
    verdict: Verdict | None,
    trace: Trace | None,
    **options: Unpack[PageOptions],
) -> dict[str, Any]:
    """What the page shows of a program, its verdict and its simulation."""
    rows = listing(program)
    stalls = () if trace is None else stalls_by_step(trace, rows)
    page = _Page(program, verdict, trace, rows, stalls)
    graph, op_of = graph_of(program, rows)
    estimate = options.get("estimate")
    lines = options.get("lines", ())
    names = {node.name: n for n, node in enumerate(program.meaning.nodes)}
    meta = _meta(page, options)
    sized = meta["tile"] == tile_text(program)
    return whole_page(
        trace,
        stalls,
        [*_headline(page), *options.get("cards", ())],
        meta,
        unsimulated=options.get("unsimulated", "") if trace is None else "",
        sections=[
            [first.section.name, first.track, rows.title(first.track), _loops(page, numbers)]
            for first, numbers in rows.sections()
        ],
        entries=_entries(page, op_of, names),
        nodes=[[n.name, node_text(n, sized=sized)] for n in program.meaning.nodes],
        assembly=assembly_data(options["kernel"], lines, rows) if lines else None,
        unwritten=options.get("unwritten", ""),
        ops=_ops(graph),
        edges=[list(edge) for edge in graph.edges],
        critical=list(graph.critical),
        timeline=None if trace is None else _timeline(page, trace, options),
        verdict=None if verdict is None else _verdict(page, verdict),
        estimate=None if estimate is None else _estimate(estimate),
        knobs=[[title, [list(row) for row in knobs]] for title, knobs in options.get("knobs", ())],
        notes=list(program.provenance.notes),
    )


def _timeline(page: _Page, trace: Trace, options: PageOptions) -> dict[str, Any]:
    most = options.get("timeline_iterations", TIMELINE_ITERATIONS)
    if most < 1:
        raise ConfigError(
            f"timeline_iterations = {most}",
            hint="show at least one iteration",
            field="timeline_iterations",
        )
    shown = options.get("shown")
    if shown is None and trace.iterations > most:
        shown = simulate(
            page.program,
            trace.machine,
            iterations=page.program.iterations.at(trip_counts(page.program, most)),
            jitter=options.get("jitter", 0.0),
            seed=options.get("seed", 0),
        )
    lines = {line.at: n for n, line in enumerate(options.get("lines", ()))}
    return timeline_data(page.program, shown or trace, page.rows, lines)


def _loops(page: _Page, numbers: Sequence[int]) -> bool:
    """Whether a section is what the graph is about: a loop, or all where there is none."""
    looped = any(row.section.trips is not None for row in page.rows.rows)
    return page.rows.rows[numbers[0]].section.trips is not None or not looped


def _meta(page: _Page, options: PageOptions) -> dict[str, Any]:
    program = page.program
    ordered = program.provenance.ordered
    return {
        "program": program.name,
        "shape": options.get("tile") or tile_text(program),
        "tile": options.get("tile") or tile_text(program),
        "sync": options.get("sync") or sync_text(program),
        "strategy": "" if ordered is None else ordered.strategy,
        "stream": options.get("stream", ""),
        "variant": options.get("variant", ""),
        "over": tiles_text(program, 1).removeprefix("1 "),
        "per_trip": tiles_text(program, advance(program)),
    }


def _headline(page: _Page) -> list[Card]:
    """The figures at the top."""
    trace, verdict, counts = page.trace, page.verdict, loop_counts(page.program)
    rows = []
    if trace is not None and not trace.iterations:
        rows.append(
            Card(
                f"{trace.total_cycles}",
                "cycles in all",
                f"{no_loop_text(page.program)}: prologue {trace.prologue_cycles} "
                f"and epilogue {trace.epilogue_cycles} only",
                "cycles",
                f"{trace.total_cycles} in all",
            )
        )
    elif trace is not None:
        each, trip = pace(page.program, trace.steady_cycles_per_iteration)
        value, _, name = each.partition(" ")
        loop = main_loop(page.program, page.program.groups[0]).name
        why = f"steady state of the simulated {loop}{trip and ': '}{trip}"
        cell = each.replace(" cycles", "")
        rows += [Card(value, name, why, "cycles", cell), *speed_cards(trace)]
    if verdict is not None:
        rows.append(Card(verdict.status.name, "verdict", _meaning(verdict)))
    rows.append(
        Card(
            f"{counts.coalesced_waits} / {counts.barriers}",
            "waits / barriers",
            "per trip of one wave; adjacent waits count as one",
        )
    )
    ordered = page.program.provenance.ordered
    if ordered is not None and ordered.cycles is not None:
        least = ", proved least" if ordered.proved else ""
        rows.append(
            Card(
                f"{ordered.cycles}",
                f"cost of the order{least}",
                f"in cycles of its strategy's own model, {ordered.strategy}, which are not the "
                f"simulator's; lower bound {ordered.bound}",
                "cost of the order",
                f"{ordered.cycles} by {ordered.strategy}{least}",
            )
        )
    return rows


def _entries(page: _Page, op_of: Sequence[int], nodes: Mapping[str, int]) -> list[list[Any]]:
    """Section, slot, label, role, op of the graph or -1, stall cycles, waves if not all, node."""
    lost = lost_cycles(page.stalls)
    rows: list[list[Any]] = []
    for number, (_, members) in enumerate(page.rows.sections()):
        for at in members:
            row = page.rows.rows[at]
            label = row.label + offset_text(page.program, row.step)
            node = nodes[row.step.node] if isinstance(row.step, Work) else -1
            rows.append(
                [number, row.slot, label, row.role, op_of[at], lost.get(at, 0.0), row.waves, node]
            )
    return rows


def _ops(graph: Graph) -> list[list[Any]]:
    """Label, offset, role, latency, ASAP, slack."""
    return [
        [op.label, op.offset.strip(), op.role, op.latency, graph.asap[i], graph.slack[i]]
        for i, op in enumerate(graph.ops)
    ]


def _meaning(verdict: Verdict) -> str:
    claim = verdict.claim[:1].upper() + verdict.claim[1:]
    return _MEANING[verdict.status].format(claim=claim)


def _verdict(page: _Page, verdict: Verdict) -> dict[str, Any]:
    def place(at: StepPlace | None) -> list[Any] | None:
        if at is None:
            return None
        row = page.rows.at.get((page.rows.group_of[at.wave], at.section, at.slot), -1)
        return [at.wave, row, at.iteration, str(at)]

    def told(step: CounterexampleStep) -> list[Any]:
        return [step.wave, step.text, place(step.place)]

    dead = [str(item) for item in verdict.dead_work]
    coverage = verdict.coverage.describe()
    return verdict_data(verdict, _meaning(verdict), coverage, place, told, dead)


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "tflops": round(estimate.tflops, 1),
        "clock": round(estimate.clock_ghz, 2),
        "microseconds": round(estimate.microseconds, 1),
        "bound": estimate.bound,
        "workgroups": estimate.workgroups,
        "rounds": estimate.rounds,
        "assumptions": list(estimate.assumptions),
    }


def assembly_data(name: str, lines: Sequence[WrittenLine], rows: Listing) -> dict[str, Any]:
    """A kernel's lines: ``text`` has their numbers in ``texts``.

    ``entry`` are runs of (row of the listing or -1, lines), ``number`` runs of (line of the text,
    lines that follow it one by one), ``groups`` the lines at which the code of each group begins.
    """
    numbers: dict[str, int] = {}
    served = [-1 if line.step is None else rows.at.get(line.step, -1) for line in lines]
    starts = groupby(enumerate(lines), lambda pair: pair[1].number - pair[0])
    runs = [[pair[1].number for pair in run] for _, run in starts]
    begins: dict[int, int] = {}
    for at, line in enumerate(lines):
        if line.step is not None:
            begins.setdefault(line.step[0], at)
    return {
        "name": name,
        "text": [numbers.setdefault(line.text, len(numbers)) for line in lines],
        "texts": list(numbers),
        "entry": [[entry, len(list(run))] for entry, run in groupby(served)],
        "number": [[run[0], len(run)] for run in runs],
        "groups": [begins[group] for group in sorted(begins)],
    }


def node_text(node: Node, *, sized: bool = True) -> str:
    """What gives the value and its type; with its sizes, unless those are not of elements."""
    sizes = "x".join(str(size) for size in node.type.shape) if sized else ""
    kind = f"{node.type.dtype}{' ' * bool(sizes)}{sizes}"
    if node.kind is NodeKind.OP:
        added = f" + {node.init}" if node.init is not None else ""
        where = f" where {node.when}, else {node.otherwise}" if node.when is not None else ""
        return f"{node.name} = {node.op}({', '.join(node.uses)}){added}{where}, {kind}"
    if node.kind is NodeKind.OUTPUT:
        return f"{node.name} = {', '.join(node.uses)}, stored as {kind}"
    if node.kind is NodeKind.VIEW:
        return f"{node.name}: the first of {', '.join(node.uses)}, {kind}"
    if node.kind is NodeKind.CARRY:
        return f"{node.name}: {', '.join(node.uses)} of the iteration before, {kind}"
    return f"{node.name}: {_KINDS[node.kind]}, {kind}"

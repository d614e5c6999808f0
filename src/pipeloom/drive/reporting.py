"""Everything about one schedule as a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeloom.drive.any_size import emit_any_size
from pipeloom.drive.emitting import emitted_form, symbol, tile_of
from pipeloom.drive.forms import Choice
from pipeloom.drive.simulating import SimulateJob, Simulation, prepare
from pipeloom.drive.sources import Named, Source
from pipeloom.errors import ScheduleError
from pipeloom.judge.simulate import Trace
from pipeloom.judge.verify import Status, Verdict
from pipeloom.machine.occupancy import Resources
from pipeloom.machine_code.written_lines import written_lines
from pipeloom.program import Program, Work
from pipeloom.reference.lift import check_sized
from pipeloom.show.cards import resource_cards
from pipeloom.show.page import fill_page
from pipeloom.show.page_data import page_data
from pipeloom.write import EmittedKernel, occupied

TIMELINE_ITERATIONS = 4


@dataclass(frozen=True, slots=True)
class Report:
    """The page, self-contained HTML, and what is on it."""

    page: str
    simulation: Simulation
    verdict: Verdict
    trace: Trace | None
    emitted: Choice | None


def report(
    job: SimulateJob | Source | Named, timeline_iterations: int = TIMELINE_ITERATIONS
) -> Report:
    """Compile, verify and simulate what is named, and write it all on one page."""
    if not isinstance(job, SimulateJob):
        job = SimulateJob(job if isinstance(job, Source) else Source(job, default_tile="bf16"))
    simulation = prepare(job, needs_tile=False)
    timed = simulation.opened.tile() is not None or _is_timed(simulation.program)
    trace = simulation.run() if timed else None
    verdict = simulation.verdict()
    page = simulation_page(simulation, trace, verdict, iterations=timeline_iterations)
    emitted = None if simulation.emission is not None else emitted_form(job.source)
    return Report(fill_page(page), simulation, verdict, trace, emitted)


def _is_timed(program: Program) -> bool:
    """Whether its steps say which instructions they issue."""
    steps = (step for group in program.groups for _, _, step in group.steps())
    return any(isinstance(step, Work) and step.issues for step in steps)


def simulation_page(
    simulation: Simulation,
    trace: Trace | None,
    verdict: Verdict,
    *,
    iterations: int = TIMELINE_ITERATIONS,
    variant: str = "",
) -> dict[str, Any]:
    """What the page shows of a simulation; ``variant`` is its name on a page of several."""
    shown = trace
    if trace is not None and trace.iterations > iterations:
        shown = simulation.run(simulation.iterations_of(iterations))
    emission = simulation.emission
    written = _Written() if trace is None else _written(simulation, verdict)
    kernel, held = written.kernel, written.resources
    return page_data(
        simulation.program,
        verdict,
        trace,
        shown=shown,
        timeline_iterations=iterations,
        unsimulated=f"Not simulated: {simulation.program.name} has no tile shape, so its ops have "
        "no instruction counts.",
        estimate=None if trace is None else simulation.estimate(trace),
        tile=simulation.tile,
        sync=simulation.sync,
        stream="" if emission is None else emission.kernel.name,
        knobs=simulation.opened.knobs(),
        cards=()
        if held is None
        else resource_cards(held.vgprs, held.agprs, held.lds_bytes, held.waves_per_simd),
        variant=variant,
        kernel="" if kernel is None else kernel.name,
        lines=() if kernel is None else written_lines(kernel),
        unwritten=written.why,
    )


@dataclass(frozen=True, slots=True)
class _Written:
    """The kernel of a program or why there is none, and what it occupies where that is known."""

    kernel: EmittedKernel | None = None
    resources: Resources | None = None
    why: str = ""


def _written(simulation: Simulation, verdict: Verdict) -> _Written:
    """The kernel of the program that is shown.

    What ``emit`` writes may be another form; registers and lines of that would be beside the point.
    """
    if simulation.emission is not None:
        kernel = simulation.emission.kernel
        return _Written(kernel, kernel.resources)
    opened, program = simulation.opened, simulation.program
    compiled = opened.schedule()
    try:
        if compiled is not None:
            check_sized(program, tile_of(opened, compiled))
        if verdict.status is Status.RACE:
            why = "RACE: a kernel is written only of what is proved."
            return _Written(None, occupied(program, ops=opened.ops), why)
        kernel = emit_any_size(
            program,
            judge=lambda _: verdict,
            ops=opened.ops,
            name=symbol(opened),
            allow_timing=True,
        )
    except ScheduleError as error:
        return _Written(why=error.message)
    return _Written(kernel, kernel.resources)

"""Everything about one schedule as a page."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipeloom.drive.emitting import emitted_form
from pipeloom.drive.forms import Choice
from pipeloom.drive.simulating import SimulateJob, Simulation, prepare
from pipeloom.drive.sources import Named, Source
from pipeloom.drive.timing_files import judged, time_checked
from pipeloom.errors import ConfigError, ScheduleError
from pipeloom.judge.check.verdict import CheckStatus
from pipeloom.judge.simulate import Trace
from pipeloom.judge.verify import Verdict
from pipeloom.machine_code.loop_times import KernelTiming

if TYPE_CHECKING:
    from pipeloom.machine.occupancy import Resources

TIMELINE_ITERATIONS = 4
SEEDS = 2
"""Runs that try to show a race; ``pipeloom check`` makes more."""


@dataclass(frozen=True, slots=True)
class ReportJob:
    """What the page is about, and how many iterations its timeline shows."""

    simulate: SimulateJob
    timeline_iterations: int = TIMELINE_ITERATIONS


@dataclass(frozen=True, slots=True)
class Report:
    """The page, self-contained HTML, and what is on it."""

    page: str
    simulation: Simulation
    verdict: Verdict
    trace: Trace | None
    emitted: Choice | None


def report(job: ReportJob | SimulateJob | Source | Named) -> Report:
    """Compile, verify and simulate what is named, and write it all on one page."""
    from pipeloom.show.page import fill_page

    if not isinstance(job, ReportJob | SimulateJob):
        job = SimulateJob(job if isinstance(job, Source) else Source(job, default_tile="bf16"))
    if not isinstance(job, ReportJob):
        job = ReportJob(job)
    simulation = prepare(job.simulate, needs_tile=False)
    trace = simulation.run() if simulation.subject.tile() is not None else None
    verdict = simulation.verdict()
    page = simulation_page(simulation, trace, verdict, iterations=job.timeline_iterations)
    emitted = None if simulation.emission is not None else emitted_form(job.simulate.source)
    return Report(fill_page(page), simulation, verdict, trace, emitted)


def simulation_page(
    simulation: Simulation,
    trace: Trace | None,
    verdict: Verdict,
    *,
    iterations: int = TIMELINE_ITERATIONS,
    variant: str = "",
) -> dict[str, Any]:
    """What the page shows of a simulation; ``variant`` is its name on a page of several."""
    from pipeloom.show.page_data import page_data, resource_cards

    shown = trace
    if trace is not None and trace.iterations > iterations:
        shown = simulation.run(simulation.iterations_of(iterations))
    emission = simulation.emission
    held = None if trace is None else _occupied(simulation)
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
        knobs=simulation.subject.knobs(),
        cards=()
        if held is None
        else resource_cards(held.vgprs, held.agprs, held.lds_bytes, held.waves_per_simd),
        variant=variant,
    )


def _occupied(simulation: Simulation) -> Resources | None:
    """Registers and LDS of the kernel that ``emit`` writes; None where it writes none."""
    if simulation.emission is not None:
        return simulation.emission.kernel.resources
    try:
        emission = prepare(replace(simulation.job, emitted=True)).emission
    except ScheduleError:
        return None
    return None if emission is None else emission.kernel.resources


def report_file(
    path: str | os.PathLike[str],
    launch: str | os.PathLike[str],
    kernel: str | None = None,
    *,
    iterations: int = TIMELINE_ITERATIONS,
) -> tuple[str, KernelTiming, CheckStatus]:
    """Judge and simulate a kernel that others wrote, and write its main loop on a page."""
    from pipeloom.show.kernel_page import kernel_page
    from pipeloom.show.page import fill_page

    checked = judged(path, launch, kernel, seeds=SEEDS)
    timing = time_checked(checked)
    if timing is None:
        raise ConfigError(
            f"{checked.file.kernel.name} has no page: {checked.verdict.reason}",
            hint="it must run to its end; pipeloom check says more",
            field="launch",
        )
    page = kernel_page(timing, checked.verdict, iterations=iterations)
    return fill_page(page), timing, checked.verdict.status

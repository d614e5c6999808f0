"""A kernel that others wrote as a page."""

from __future__ import annotations

import os

from pipeloom.drive.reporting import TIMELINE_ITERATIONS
from pipeloom.drive.timing_files import judged, time_checked
from pipeloom.errors import ConfigError
from pipeloom.judge.check.verdict import CheckStatus
from pipeloom.machine_code.loop_times import KernelTiming
from pipeloom.show.kernel_page import kernel_page
from pipeloom.show.page import fill_page

SEEDS = 2
"""Runs that try to show a race; ``pipeloom check`` makes more."""


def report_file(
    path: str | os.PathLike[str],
    launch: str | os.PathLike[str],
    kernel: str | None = None,
    *,
    iterations: int = TIMELINE_ITERATIONS,
) -> tuple[str, KernelTiming, CheckStatus]:
    """Judge and simulate a kernel that others wrote, and write its main loop on a page."""
    checked = judged(path, launch, kernel, seeds=SEEDS)
    timing = time_checked(checked)
    if timing is None:
        raise ConfigError(
            f"{checked.file.kernel.name} has no page: {checked.verdict.reason}",
            hint="it must run to its end; pipeloom check says more",
            field="launch",
        )
    sources = checked.file.lines()
    page = kernel_page(timing, checked.verdict, iterations=iterations, sources=sources)
    return fill_page(page), timing, checked.verdict.status

"""How fast a kernel file is: emulated once for its waves' paths, then simulated loop by loop.

timing = time_start(*launched("k.hsaco", "launch.json"))
print(timing.main)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from pipeloom.drive.checking import MOST_INSTRUCTIONS, Checked, CheckEffort, check_start
from pipeloom.drive.kernel_files import KernelFile, Start, open_kernel
from pipeloom.errors import ConfigError
from pipeloom.judge.check.record import Recorder
from pipeloom.judge.emulate import Timing
from pipeloom.machine_code.launch_file import load_launch
from pipeloom.machine_code.loop_times import MOST_SIMULATED, KernelTiming, time_kernel

MOST_FINDINGS = 10_000
"""What is wrong with a kernel does not keep it from being timed."""


def launched(
    path: str | os.PathLike[str], launch: str | os.PathLike[str], kernel: str | None = None
) -> tuple[KernelFile, Start]:
    """A kernel file with its launch file."""
    return open_kernel(path, kernel), Start.of(load_launch(launch))


def judged(
    path: str | os.PathLike[str],
    launch: str | os.PathLike[str],
    kernel: str | None = None,
    **options: Any,
) -> Checked:
    """The judgement of a kernel file with its launch file; the options are its effort's."""
    effort = CheckEffort(look_for_needless=False, **options)
    return check_start(*launched(path, launch, kernel), effort)


def time_start(file: KernelFile, start: Start) -> KernelTiming:
    """Emulate workgroup 0 of the launch and simulate its loops."""
    recorder = Recorder(file.kernel)
    result, _ = start.run(
        file.kernel,
        timing=Timing.EARLY,
        max_findings=MOST_FINDINGS,
        max_instructions=MOST_INSTRUCTIONS,
        observer=recorder,
        workgroups=1,
    )
    if result.stopped:
        raise ConfigError(
            f"{file.kernel.name} does not run to its end: {result.stopped}",
            hint="pipeloom check says more; its loops are timed once it runs",
            field="launch",
        )
    return time_kernel(file.kernel, recorder.program, recorder.groups[0])


def time_checked(
    checked: Checked, most_loops: int | None = None, budget: int = MOST_SIMULATED
) -> KernelTiming | None:
    """How fast a judged kernel is; None where it did not run to its end."""
    study = checked.study
    if study is None or not checked.complete:
        return None
    return time_kernel(
        checked.file.kernel, study.program, study.every[0], most_loops=most_loops, budget=budget
    )


def time_loosened(
    checked: Checked, most_loops: int | None = None, budget: int = MOST_SIMULATED
) -> KernelTiming | None:
    """How fast it would be without what is not needed; None where all waits are needed."""
    study = checked.study
    if study is None or not checked.verdict.needless:
        return None
    return time_kernel(
        checked.file.kernel,
        study.program,
        study.every[0],
        sync=checked.loose,
        most_loops=most_loops,
        budget=budget,
    )


@dataclass(frozen=True, slots=True)
class Saving:
    """Cycles of one loop's trip (of the run, where there is no loop) as it is and loosened."""

    pc: int
    before: float
    after: float

    def __str__(self) -> str:
        less = (self.before - self.after) / self.before if self.before else 0.0
        said = f"{less:.1%} less" if less >= 0 else f"{-less:.1%} more"
        return f"pc {self.pc:#x}: {self.before:.0f} cycles, {self.after:.0f} without ({said})"


def savings(timing: KernelTiming, loosened: KernelTiming) -> tuple[Saving, ...]:
    """What it is worth to take out all that is not needed, loop by loop."""
    after = {loop.head_pc: loop.cycles for loop in loosened.loops}
    return tuple(
        Saving(loop.head_pc, loop.cycles, after[loop.head_pc])
        for loop in timing.loops
        if loop.head_pc in after
    )

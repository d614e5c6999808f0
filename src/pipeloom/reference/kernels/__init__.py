"""The kernels that consume schedules; ``kernel_for`` picks by schedule name."""

from __future__ import annotations

from collections.abc import Callable

from pipeloom.checks import check_instance, nearest
from pipeloom.errors import ConfigError
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels.grid import GridKernel, four_wave, ping_pong
from pipeloom.reference.kernels.mapping import (
    NO_EFFECT,
    Accumulator,
    Counter,
    Effect,
    Kernel,
    LdsRead,
    Part,
    Region,
    Register,
    Step,
    WalkBuilder,
)
from pipeloom.reference.kernels.single_buffer import SingleBufferKernel

KERNELS: dict[str, Callable[[CompiledSchedule], Kernel]] = {
    "ping_pong": ping_pong,
    "four_wave": four_wave,
    "single_buffer": SingleBufferKernel.for_schedule,
}
"""Schedule name -> the kernel that runs it."""


def kernel_for(compiled: CompiledSchedule) -> Kernel:
    """The shipped kernel that runs ``compiled``; raises ``ConfigError`` where there is none."""
    check_instance("kernel_for", "compiled", compiled, CompiledSchedule)
    make = KERNELS.get(compiled.schedule)
    if make is None:
        raise ConfigError(
            f"no kernel model is known for schedule {compiled.schedule!r}",
            hint=f"pass kernel=, a GridKernel; {nearest(compiled.schedule, KERNELS)}",
            field="kernel",
        )
    return make(compiled)


__all__ = [
    "KERNELS",
    "NO_EFFECT",
    "Accumulator",
    "Counter",
    "Effect",
    "GridKernel",
    "Kernel",
    "LdsRead",
    "Part",
    "Region",
    "Register",
    "SingleBufferKernel",
    "Step",
    "WalkBuilder",
    "kernel_for",
]

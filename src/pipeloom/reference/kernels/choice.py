"""Which kernel a compiled schedule is run by: a shipped one by name, else what its ops say."""

from __future__ import annotations

from collections.abc import Callable

from pipeloom.checks import check_instance
from pipeloom.errors import ConfigError
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels.derived import derived_kernel
from pipeloom.reference.kernels.grid import four_wave, ping_pong
from pipeloom.reference.kernels.mapping import Kernel
from pipeloom.reference.kernels.single_buffer import SingleBufferKernel

KERNELS: dict[str, Callable[[CompiledSchedule], Kernel]] = {
    "ping_pong": ping_pong,
    "four_wave": four_wave,
    "single_buffer": SingleBufferKernel.for_schedule,
}
"""Schedule name -> the kernel that runs it."""


def kernel_for(compiled: CompiledSchedule) -> Kernel:
    """The shipped kernel that runs ``compiled``, or the one that its ops describe.

    A schedule whose ``kernel`` hook gave a model of its own is judged by no other: ``ConfigError``.

    Args:
        compiled: the schedule.
    """
    check_instance("kernel_for", "compiled", compiled, CompiledSchedule)
    if compiled.own_kernel:
        raise ConfigError(
            f"{compiled.schedule} says itself what its ops touch, in its kernel() hook, which a "
            "compiled schedule does not carry",
            hint="judge the schedule object, or pass kernel=schedule.kernel(compiled)",
            field="kernel",
        )
    return KERNELS.get(compiled.schedule, derived_kernel)(compiled)

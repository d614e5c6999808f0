"""The verdict on a compiled schedule: that on the program it lifts to."""

from __future__ import annotations

from pipeloom.checks import check_instance
from pipeloom.judge.verify import Verdict
from pipeloom.judge.verify import proves as program_proves
from pipeloom.judge.verify import verify as verify_program
from pipeloom.program import Program
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Kernel
from pipeloom.reference.lift import lift


def verify(
    compiled: CompiledSchedule | Program,
    kernel: Kernel | None = None,
    *,
    counter_stall: bool | None = None,
) -> Verdict:
    """Prove a schedule or program right for every trip count, or say what goes wrong and how.

    ``kernel`` is the model of the kernel that runs a schedule, by default the shipped one of that
    name; a program needs none. ``counter_stall`` is that of ``judge.verify.verify``.
    """
    return verify_program(_program(compiled, kernel), counter_stall=counter_stall)


def proves(compiled: CompiledSchedule | Program, kernel: Kernel | None = None) -> bool:
    """Whether ``verify`` says PROVED, settled by the first thing that is wrong."""
    return program_proves(_program(compiled, kernel))


def _program(compiled: CompiledSchedule | Program, kernel: Kernel | None) -> Program:
    if isinstance(compiled, Program):
        return compiled
    check_instance("verify", "compiled", compiled, CompiledSchedule)
    if kernel is not None:
        check_instance("verify", "kernel", kernel, Kernel)
    return lift(compiled, kernel)

"""The verdict on a compiled schedule: that on the program it lifts to.

The specification's kernels were tuned on chips whose issue stalls at a full counter, and its verdicts
take that for granted; a program of your own is judged without it unless the target says so.
"""

from __future__ import annotations

from pipeloom.checks import check_instance
from pipeloom.judge.verify import Verdict, verify
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Kernel
from pipeloom.reference.lift import lift


def verify_schedule(
    compiled: CompiledSchedule, kernel: Kernel | None = None, *, counter_stall: bool | None = True
) -> Verdict:
    """Prove ``compiled`` right for every trip count, or say what goes wrong and how.

    ``kernel`` is the model of the kernel that runs it, by default the shipped one of that name.
    """
    check_instance("verify", "compiled", compiled, CompiledSchedule)
    if kernel is not None:
        check_instance("verify", "kernel", kernel, Kernel)
    return verify(lift(compiled, kernel), counter_stall=counter_stall)

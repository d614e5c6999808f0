"""A kernel that others wrote as one row of a comparison."""

from __future__ import annotations

from pipeloom.judge.simulate.instruction import Kind
from pipeloom.judge.simulate.trace import Phase
from pipeloom.lift.timing import KernelTiming
from pipeloom.show.comparison import Comparison
from pipeloom.show.kernel_page import Disassembly
from pipeloom.show.segments import stalls_by_step


def kernel_row(name: str, timing: KernelTiming, verdict: str) -> Comparison:
    """Figures of one trip of the main loop; its work is what the matrix unit computes in it."""
    main = timing.main
    trace = main.trace
    per = max(main.loop.trips_per_iteration, 1)
    body = trace.programs[0].loop
    stalls = [row for row in stalls_by_step(trace, Disassembly(timing)) if row.phase is Phase.LOOP]
    top = "none"
    if stalls:
        worst = stalls[0]
        top = f"{worst.where} {worst.label}, {worst.mean / per:.0f}: {worst.cause.text}"
    flops = sum(
        one.matrix_op.flops for p in trace.programs for one in p.loop if one.matrix_op is not None
    )
    return Comparison(
        name=name,
        cycles_per_iteration=round(main.cycles, 2),
        matrix_efficiency=round(main.efficiency, 4),
        limiting_unit=trace.limiting_unit(),
        total_cycles=trace.total_cycles,
        waits=sum(one.kind is Kind.WAIT for one in body) // per,
        barriers=sum(one.kind is Kind.BARRIER for one in body) // per,
        stall_cycles=round(sum(row.mean for row in stalls) / per, 1),
        top_stall=top,
        verdict=verdict,
        tile=f"{flops / per / 1e6:.2f} MFLOP",
        k_tiles_per_iteration=0,
    )

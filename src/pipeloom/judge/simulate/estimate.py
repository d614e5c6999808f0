"""From a trace of one tile to the whole GPU. A model, not a measurement.

    cycles per tile = iterations * cycles of one + what its ends take beyond them
                      + bytes of C / store rate

What the chip makes of such tiles (rounds, caches, memory, clock) is the model that ``tune`` ranks
kernels by (``whole_gpu``). ``Estimate.assumptions`` states what it leaves out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeloom.judge.simulate.instruction import Kind
from pipeloom.judge.simulate.trace import Trace
from pipeloom.judge.simulate.whole_gpu import Block, BlockCost, Plan, ProductSizes, fastest, predict
from pipeloom.machine.gpus import gpu_for
from pipeloom.machine.target import Target


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the model says of a whole problem, and what it assumed."""

    tflops: float
    tflops_at_peak_clock: float
    microseconds: float
    clock_ghz: float
    workgroups: int
    rounds: int
    last_round_share: float
    tile_cycles: float
    bound: str
    assumptions: tuple[str, ...]


def stores_output(trace: Trace) -> bool:
    """Whether the tile that ran stores C, as emitted kernels do."""
    return any(
        instruction.kind is Kind.GLOBAL_STORE
        for program in trace.programs
        for instruction in (*program.prologue, *program.loop, *program.epilogue)
    )


def traced_cost(trace: Trace, least: int, step: int, stored: float) -> BlockCost:
    """The cost of a block that was simulated; for its own K it adds up to the cycles of the run.

    A run computes ``least`` iterations, and ``step`` in each trip; ``stored`` are the cycles of
    storing C, where it does.
    """
    cycles = trace.steady_cycles_per_iteration / step
    ends = trace.total_cycles - (least + step * trace.iterations) * cycles
    matrix = trace.utilisation().get("matrix", 1.0) * cycles
    return BlockCost(cycles, ends - stored, matrix, "matrix unit", least, step)


def estimate_gemm(
    machine: Target, problem: ProductSizes, block: Block, cost: BlockCost, *, stored: bool = False
) -> Estimate:
    """TFLOPS of a problem from the cost of one block, at the clock that the power allows.

    ``stored`` says that the block was seen storing C.
    """
    gpu = gpu_for(machine)
    plan = Plan(block, blocked=False)
    found = predict(gpu, problem, plan, cost)
    rate, slots = machine.store_bytes_per_clk.value, machine.cus.value
    store = block.m * block.n * problem.out_bytes / rate
    iterations = cost.padded(math.ceil(problem.k / block.k))
    overlap = "as in the simulated tile" if stored else "not overlapped with the loop"
    padding = f"K padded with zeros from {problem.k} to {iterations * block.k}, in steps of the"
    return Estimate(
        tflops=found.tflops,
        tflops_at_peak_clock=problem.flops / fastest(gpu, problem, plan, cost) / 1e12,
        microseconds=found.seconds * 1e6,
        clock_ghz=found.clock_ghz,
        workgroups=found.workgroups,
        rounds=found.rounds,
        last_round_share=(found.workgroups - (found.rounds - 1) * slots) / slots,
        tile_cycles=iterations * cost.cycles + cost.ends + store,
        bound=found.limit,
        assumptions=(
            f"{gpu.chip}: {gpu.power_w.value:g} W, by which the clock is "
            f"{found.clock_ghz:.2f} of {gpu.clock_peak_ghz.value:g} GHz",
            "one workgroup per CU at a time; a round ends when its last tile does",
            "every tile takes as long as the simulated one, or as its loads take with all CUs "
            f"loading, and {gpu.ramp_cycles.value:g} cycles to start and end; edge tiles cost as "
            "whole ones",
            *((f"{padding} kernel",) if iterations * block.k != problem.k else ()),
            f"C leaves at {rate:g} bytes per cycle and CU, {overlap}",
            "workgroups of an XCD have neighbouring blocks, and A and B are read into its L2 once "
            "a round",
            f"{gpu.start_us.value:g} us to start and end a kernel, no cache conflicts",
        ),
    )

"""From a trace of one tile to the whole GPU. A model, not a measurement.

    cycles per tile = prologue + warm-up + trips * cycles per iteration + epilogue
                      + bytes of C / store rate, unless the epilogue stores

What the chip makes of such tiles (rounds, caches, memory, clock) is the model that ``tune`` ranks
kernels by (``whole_gpu``). ``Estimate.assumptions`` states what it leaves out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pipeloom.errors import ConfigError
from pipeloom.judge.simulate.instruction import Kind
from pipeloom.judge.simulate.trace import Trace
from pipeloom.judge.simulate.whole_gpu import Block, BlockCost, Plan, fastest, predict
from pipeloom.machine.gpus import gpu_for
from pipeloom.machine.target import Target


@dataclass(frozen=True, slots=True)
class GemmProblem:
    """C[M, N] = A[M, K] x B[N, K]^T; bytes per element may be fractional (fp4 is 0.5)."""

    m: int
    n: int
    k: int
    in_bytes: float = 2.0
    out_bytes: float = 2.0
    batches: int = 1
    reads_c: bool = False

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "in_bytes", "out_bytes"):
            if getattr(self, name) <= 0:
                raise ConfigError(
                    f"GemmProblem.{name} = {getattr(self, name)}",
                    hint="sizes are positive",
                    field=name,
                )

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k * self.batches

    @property
    def element_bytes(self) -> float:
        """Block scales are not counted."""
        return self.in_bytes

    @property
    def rows(self) -> tuple[int, int]:
        """Of A and B: K elements."""
        return self.k, self.k


@dataclass(frozen=True, slots=True)
class TileTiming:
    """What one workgroup computes and how long its parts take.

    An iteration covers ``k_per_iteration`` of K; ``k_outside_loop`` of it is computed by the
    prologue and epilogue. ``warm_up_cycles`` is what the iterations took beyond the steady ones,
    below 0 where they were faster; ``includes_store`` says that the epilogue stores C.
    """

    tile_m: int
    tile_n: int
    k_per_iteration: int
    cycles_per_iteration: float
    prologue_cycles: float = 0.0
    epilogue_cycles: float = 0.0
    k_outside_loop: int = 0
    warm_up_cycles: float = 0.0
    includes_store: bool = False
    matrix_cycles: float | None = None
    """Of an iteration, those in which the matrix unit works; all of them unless given."""

    def __post_init__(self) -> None:
        for name in ("tile_m", "tile_n", "k_per_iteration", "cycles_per_iteration"):
            if getattr(self, name) <= 0:
                raise ConfigError(
                    f"TileTiming.{name} = {getattr(self, name)}",
                    hint="it must be positive",
                    field=name,
                )

    @classmethod
    def from_trace(
        cls,
        trace: Trace,
        *,
        tile_m: int,
        tile_n: int,
        k_per_iteration: int,
        k_outside_loop: int = 0,
    ) -> TileTiming:
        """The timing a simulation found; for its own trip count it adds up to its total."""
        steady = trace.steady_cycles_per_iteration
        outside = trace.prologue_cycles + trace.epilogue_cycles
        return cls(
            tile_m=tile_m,
            tile_n=tile_n,
            k_per_iteration=k_per_iteration,
            cycles_per_iteration=steady,
            prologue_cycles=trace.prologue_cycles,
            epilogue_cycles=trace.epilogue_cycles,
            k_outside_loop=k_outside_loop,
            warm_up_cycles=trace.total_cycles - outside - trace.iterations * steady,
            matrix_cycles=trace.utilisation().get("matrix", 1.0) * steady,
            includes_store=any(
                instruction.kind is Kind.GLOBAL_STORE
                for program in trace.programs
                for instruction in (*program.prologue, *program.loop, *program.epilogue)
            ),
        )


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


def estimate_gemm(machine: Target, problem: GemmProblem, timing: TileTiming) -> Estimate:
    """TFLOPS of a problem from the timing of one tile, at the clock that the power allows."""
    if timing.k_outside_loop > problem.k:
        raise ConfigError(
            f"K = {problem.k} is less than the {timing.k_outside_loop} of prologue and epilogue",
            hint="use a K that the kernel accepts",
            field="k",
        )
    gpu = replace(gpu_for(machine.arch), target=machine)
    trips = math.ceil((problem.k - timing.k_outside_loop) / timing.k_per_iteration)
    rate = machine.store_bytes_per_clk.value
    store = timing.tile_m * timing.tile_n * problem.out_bytes / rate
    store_text = f"C leaves at {rate:g} bytes per cycle and CU"
    store_text += (
        ", as in the simulated tile" if timing.includes_store else ", not overlapped with the loop"
    )
    tile_cycles = (
        timing.prologue_cycles
        + timing.warm_up_cycles
        + trips * timing.cycles_per_iteration
        + timing.epilogue_cycles
        + (0.0 if timing.includes_store else store)
    )
    plan = Plan(Block(timing.tile_m, timing.tile_n, timing.k_per_iteration), blocked=False)
    iterations = math.ceil(problem.k / timing.k_per_iteration)
    cycles = timing.cycles_per_iteration
    cost = BlockCost(
        cycles,
        tile_cycles - store - iterations * cycles,
        cycles if timing.matrix_cycles is None else timing.matrix_cycles,
        "matrix unit",
    )
    found = predict(gpu, problem, plan, cost)
    slots = machine.cus.value
    return Estimate(
        tflops=found.tflops,
        tflops_at_peak_clock=problem.flops / fastest(gpu, problem, plan, cost) / 1e12,
        microseconds=found.seconds * 1e6,
        clock_ghz=found.clock_ghz,
        workgroups=found.workgroups,
        rounds=found.rounds,
        last_round_share=(found.workgroups - (found.rounds - 1) * slots) / slots,
        tile_cycles=tile_cycles,
        bound=found.limit,
        assumptions=(
            f"{gpu.chip}: {gpu.power_w.value:g} W, by which the clock is "
            f"{found.clock_ghz:.2f} of {gpu.clock_peak_ghz.value:g} GHz",
            "one workgroup per CU at a time; a round ends when its last tile does",
            "every tile takes as long as the simulated one, or as its loads take with all CUs "
            f"loading, and {gpu.ramp_cycles.value:g} cycles to start and end; edge tiles cost as "
            "whole ones",
            *_padding(problem, timing, trips),
            store_text,
            "workgroups of an XCD have neighbouring blocks, and A and B are read into its L2 once "
            "a round",
            f"{gpu.launch_us.value:g} us between kernels, no cache conflicts",
        ),
    )


def _padding(problem: GemmProblem, timing: TileTiming, trips: int) -> tuple[str, ...]:
    """What is said where K is not a number of whole steps."""
    computed = timing.k_outside_loop + trips * timing.k_per_iteration
    if computed == problem.k:
        return ()
    return (f"K padded with zeros from {problem.k} to {computed}, in steps of the kernel",)

"""From one tile on one compute unit to TFLOPS on the chip. A model, not a measurement.

    cycles per tile = prologue + warm-up + trips * cycles per iteration + epilogue
                      + bytes of C / store rate, unless the epilogue stores
    rounds          = ceil(workgroups / (CUs * workgroups per CU))
    total           = max(rounds * cycles per tile, HBM bytes / HBM bytes per cycle)
    TFLOPS          = 2 M N K / (total / clock)

``Estimate.assumptions`` states what this leaves out. The clock is the weakest part: under load it
falls as efficiency rises, so compare kernels by cycles and read TFLOPS as a scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeloom.errors import ConfigError
from pipeloom.judge.simulate.instruction import Kind
from pipeloom.judge.simulate.trace import Trace
from pipeloom.machine.target import Target


@dataclass(frozen=True, slots=True)
class GemmProblem:
    """C[M, N] = A[M, K] x B[N, K]^T; bytes per element may be fractional (fp4 is 0.5)."""

    m: int
    n: int
    k: int
    input_bytes: float = 2.0
    output_bytes: float = 2.0

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "input_bytes", "output_bytes"):
            if getattr(self, name) <= 0:
                raise ConfigError(
                    f"GemmProblem.{name} = {getattr(self, name)}",
                    hint="sizes are positive",
                    field=name,
                )

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k


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
    compute_cycles: float
    hbm_cycles: float
    bound: str
    assumptions: tuple[str, ...]


def estimate_gemm(
    machine: Target,
    problem: GemmProblem,
    timing: TileTiming,
    *,
    clock_ghz: float | None = None,
    workgroups_per_cu: int = 1,
) -> Estimate:
    """TFLOPS of a problem from the timing of one tile, at ``clock_ghz`` or the sustained clock."""
    clock = machine.clock_sustained_ghz.value if clock_ghz is None else clock_ghz
    if not 0.1 <= clock <= 10.0:
        raise ConfigError(f"clock_ghz = {clock}", hint="use 0.1 to 10 GHz", field="clock_ghz")
    if workgroups_per_cu < 1:
        raise ConfigError(
            f"workgroups_per_cu = {workgroups_per_cu}", hint="use 1", field="workgroups_per_cu"
        )
    if timing.k_outside_loop > problem.k:
        raise ConfigError(
            f"K = {problem.k} is less than the {timing.k_outside_loop} of prologue and epilogue",
            hint="use a K that the kernel accepts",
            field="k",
        )
    slots = machine.cus.value * workgroups_per_cu
    workgroups = math.ceil(problem.m / timing.tile_m) * math.ceil(problem.n / timing.tile_n)
    rounds = math.ceil(workgroups / slots)
    trips = math.ceil((problem.k - timing.k_outside_loop) / timing.k_per_iteration)
    rate = machine.store_bytes_per_clk.value
    store = timing.tile_m * timing.tile_n * problem.output_bytes / rate
    store_text = f"C leaves at {rate:g} bytes per cycle and CU"
    if timing.includes_store:
        store = 0.0
        store_text += ", as in the simulated tile"
    else:
        store_text += ", not overlapped with the loop"
    tile_cycles = (
        timing.prologue_cycles
        + timing.warm_up_cycles
        + trips * timing.cycles_per_iteration
        + timing.epilogue_cycles
        + store
    )
    compute_cycles = rounds * tile_cycles
    hbm_bytes, hbm_text = _hbm_bytes(machine, problem, timing, rounds)

    def seconds_at(ghz: float) -> float:
        return max(compute_cycles / (ghz * 1e9), hbm_bytes / (machine.hbm_gb_per_s.value * 1e9))

    seconds = seconds_at(clock)
    hbm_cycles = hbm_bytes / (machine.hbm_gb_per_s.value / clock)
    return Estimate(
        tflops=problem.flops / seconds / 1e12,
        tflops_at_peak_clock=problem.flops / seconds_at(machine.clock_peak_ghz.value) / 1e12,
        microseconds=seconds * 1e6,
        clock_ghz=clock,
        workgroups=workgroups,
        rounds=rounds,
        last_round_share=(workgroups - (rounds - 1) * slots) / slots,
        tile_cycles=tile_cycles,
        compute_cycles=compute_cycles,
        hbm_cycles=hbm_cycles,
        bound="compute unit" if compute_cycles >= hbm_cycles else "HBM",
        assumptions=(
            f"clock {clock:g} GHz throughout"
            + (f" ({machine.clock_sustained_ghz.source})" if clock_ghz is None else " (given)"),
            f"{workgroups_per_cu} workgroup per CU at a time; a round ends when its last tile does",
            "every tile takes as long as the simulated one; edge tiles cost as whole ones",
            *_padding(problem, timing, trips),
            store_text,
            hbm_text,
            "no launch overhead, no tail effects between rounds, no cache conflicts",
        ),
    )


def _padding(problem: GemmProblem, timing: TileTiming, trips: int) -> tuple[str, ...]:
    """What is said where K is not a number of whole steps."""
    computed = timing.k_outside_loop + trips * timing.k_per_iteration
    if computed == problem.k:
        return ()
    return (f"K padded with zeros from {problem.k} to {computed}, in steps of the kernel",)


def _hbm_bytes(
    machine: Target, problem: GemmProblem, timing: TileTiming, rounds: int
) -> tuple[float, str]:
    """Bytes that HBM must move, and the assumption in words."""
    operands = (problem.m + problem.n) * problem.k * problem.input_bytes
    result = problem.m * problem.n * problem.output_bytes
    if operands <= machine.mall_mib.value * 2**20:
        return operands + result, "A and B fit the last-level cache: HBM moves each once, and C"
    # The tiles in flight on one XCD form a square; its rows of A and columns of B are read once.
    side = math.sqrt(machine.cus.value / machine.xcds.value)
    per_xcd = side * (timing.tile_m + timing.tile_n) * problem.k * problem.input_bytes
    reread = per_xcd * machine.xcds.value * rounds
    return (
        max(operands, reread) + result,
        "A and B exceed the last-level cache: each XCD reads its square of tiles from HBM once"
        " per round",
    )

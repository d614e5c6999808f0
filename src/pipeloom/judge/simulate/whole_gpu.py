"""How long a matrix product takes on a whole GPU. A model, not a measurement.

    block        what one workgroup computes, and how long its parts take on a compute unit
    plan         a block, K split or not, workgroups in an order that suits the caches
    predict      seconds: workgroups on the compute units, beside each other where they fit;
                 loads that wait for L2, MALL and HBM; their bandwidth; the clock that the power
                 allows; split-K's second kernel, and those that copy rows that are not aligned

The loop takes what the simulator says, or what its loads take with as many bytes in flight as a
compute unit can have, whichever is more. While one workgroup starts or ends, others of its compute
unit compute: together they take what the busiest unit works, or as long as one after the other in
each of their places, whichever is more. The clock is the highest whose power is allowed: power is
energy per operation and byte over the time of the kernel and the gap after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import NamedTuple, Protocol

from pipeloom.machine.dispatch import TileOrder
from pipeloom.machine.gpus import Gpu
from pipeloom.machine.target import Target


class ProductSizes(Protocol):
    """What is asked of the model: C[M, N] = op(A) @ op(B), so many times."""

    @property
    def m(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def batches(self) -> int: ...
    @property
    def flops(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def element_bytes(self) -> float:
        """Of A and B."""

    @property
    def in_bytes(self) -> tuple[float, float]:
        """Of A, and of B, with the share of a block scale."""

    @property
    def out_bytes(self) -> float: ...
    @property
    def rows(self) -> tuple[int, int]:
        """Elements of a row of A, and of B, as they are stored."""

    @property
    def reads_c(self) -> bool: ...


PARTIAL_BYTES = 4
"""Of an element of a partial sum."""
_STEPS = 8
"""Of the clock's fixed point, which is then right to a thousandth."""


@dataclass(frozen=True, slots=True, order=True)
class Block:
    """The tile of a workgroup, ``k`` that of one iteration; and its waves along M and N.

    ``short_ends``: with the loop whose kernel is shortest where loads set an iteration's time.
    """

    m: int
    n: int
    k: int
    waves_m: int = 2
    waves_n: int = 2
    short_ends: bool = False

    @property
    def waves(self) -> int:
        """All of them."""
        return self.waves_m * self.waves_n

    def __str__(self) -> str:
        short = ", short ends" if self.short_ends else ""
        return f"{self.m}x{self.n}x{self.k}, {self.waves} waves{short}"


@dataclass(frozen=True, slots=True)
class BlockCost:
    """Cycles on one compute unit: of an iteration, and what a tile takes beyond its iterations.

    Storing C is not in it, and what is beyond may be negative, where iterations outside the loop
    are shorter. ``matrix`` of an iteration are those in which the matrix unit works; ``unit`` is
    the busiest. A kernel computes ``least`` iterations, and then ``step`` of them at a time: what K
    lacks of that are zeros. ``resident`` workgroups fit a compute unit beside each other; of an
    iteration of each, ``busy`` cycles are not the others'.
    """

    cycles: float
    ends: float
    matrix: float
    unit: str
    least: int = 0
    step: int = 1
    resident: int = 1
    busy: float = 0.0

    def padded(self, iterations: int) -> int:
        """How many are computed where so many are needed."""
        beyond = max(0, iterations - self.least)
        return self.least + self.step * ceil(beyond / self.step)


@dataclass(frozen=True, slots=True, order=True)
class Plan:
    """How a problem is computed."""

    block: Block
    split: int = 1
    blocked: bool = True
    """What an XCD has at a time is the best rectangle of C; else what our kernels' order gives."""

    def __str__(self) -> str:
        return str(self.block) + (f", K in {self.split} parts" if self.split > 1 else "")


class BytesMoved(NamedTuple):
    """Bytes of a kernel: into all L2s, and from HBM; and the share of the first that HBM gives."""

    fill: float
    hbm: float
    cold: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says, and where the time goes: ``parts`` are microseconds by cause.

    ``seconds`` are those of the kernels, as a profiler gives them, with what lies between the
    kernels of one product; ``gap_us`` go by before the next product of a stream.
    """

    seconds: float
    gap_us: float
    tflops: float
    clock_ghz: float
    workgroups: int
    rounds: int
    limit: str
    parts: tuple[tuple[str, float], ...]

    @property
    def in_stream(self) -> float:
        """TFLOPS of products that follow each other."""
        return self.tflops * self.seconds / (self.seconds + self.gap_us * 1e-6)

    @property
    def efficiency(self) -> float:
        """The matrix unit's share of the time, at the clock there is."""
        return dict(self.parts)["matrix unit"] / (self.seconds * 1e6)


def traffic(gpu: Gpu, problem: ProductSizes, plan: Plan) -> BytesMoved:
    """Bytes that the plan moves, with each XCD's tiles read into its L2 once per round.

    Where operands do not fit MALL, those of the whole chip are read from HBM once per round.
    """
    block, target = plan.block, gpu.target
    rows, columns = ceil(problem.m / block.m), ceil(problem.n / block.n)
    cus, xcds = target.cus.value, target.xcds.value
    copies = plan.split * problem.batches
    workgroups = rows * columns * copies
    depth = problem.k / plan.split
    # Tiles of one slice and batch: others share nothing with them.
    per_xcd = min(cus // xcds, ceil(workgroups / xcds), rows * columns)
    together = min(cus, rows * columns)
    of_a, of_b = problem.in_bytes
    sides = problem.m / rows * of_a, problem.n / columns * of_b  # nothing is read beyond C
    if plan.blocked:
        fill = _rectangle(per_xcd, rows, columns, *sides) * depth * workgroups / per_xcd
    else:
        down, across = _reach(target, block, rows, columns, False)
        fill = (down * sides[0] + across * sides[1]) * depth * copies
    operands = (problem.m * of_a + problem.n * of_b) * problem.k * problem.batches
    result = problem.m * problem.n * problem.out_bytes * problem.batches
    result += result if problem.reads_c else 0
    if operands <= target.mall_mib.value * 2**20:
        return BytesMoved(fill, operands + result, 0.0)
    if plan.blocked:
        again = _rectangle(together, rows, columns, *sides) * depth * workgroups / together
    else:
        down, across = _reach(target, block, rows, columns, True)
        again = (down * sides[0] + across * sides[1]) * depth * copies
    again = max(operands, again)
    return BytesMoved(fill, again + result, min(1.0, again / fill))


def copied_bytes(target: Target, problem: ProductSizes) -> tuple[float, ...]:
    """Of the operands that our kernels copy first, to aligned rows: where loads to LDS cannot.

    K that is not whole loads is filled up with zeros, in both.
    """
    width, each = target.dma_max_bytes_per_lane.value, problem.element_bytes * problem.batches
    odd = [row * problem.element_bytes % width != 0 for row in problem.rows]
    both = any(o and row == problem.k for o, row in zip(odd, problem.rows, strict=True))
    sizes = (problem.m * problem.k * each, problem.n * problem.k * each)
    return tuple(size for o, size in zip(odd, sizes, strict=True) if o or both)


@lru_cache(maxsize=4096)
def _reach(
    target: Target, block: Block, rows: int, columns: int, chip: bool
) -> tuple[float, float]:
    """Rows and columns of tiles that the rounds of our kernels cover, of one slice of K."""
    return TileOrder.of(target, block.m, block.n).reach(rows, columns, chip=chip)


@lru_cache(maxsize=4096)
def _rectangle(tiles: int, rows: int, columns: int, height: float, width: float) -> float:
    """Bytes of A and B by K that the best arrangement of so many tiles covers; sides in bytes."""
    best = 0.0
    for high in range(1, min(tiles, rows) + 1):
        wide = min(columns, ceil(tiles / high))
        reach = high * height + wide * width
        if high * wide >= min(tiles, rows * columns) and (not best or reach < best):
            best = reach
    return best or rows * height + columns * width


def predict(gpu: Gpu, problem: ProductSizes, plan: Plan, cost: BlockCost) -> Prediction:
    """Seconds, at the clock that the power allows."""
    run = _KernelTime(gpu, problem, plan, cost)
    clock = run.clock()
    return run.prediction(clock)


def fastest(gpu: Gpu, problem: ProductSizes, plan: Plan, cost: BlockCost) -> float:
    """Seconds at the peak clock: a bound on ``predict``, without its fixed point."""
    run = _KernelTime(gpu, problem, plan, cost)
    return run.seconds(gpu.clock_peak_ghz.value) + run.overhead


class _KernelTime:
    """One kernel of one problem; a clock is in GHz, so cycles over it are ns."""

    def __init__(self, gpu: Gpu, problem: ProductSizes, plan: Plan, cost: BlockCost) -> None:
        self.gpu, self.problem, self.plan, self.cost = gpu, problem, plan, cost
        block, target = plan.block, gpu.target
        self.moved = traffic(gpu, problem, plan)
        tiles = ceil(problem.m / block.m) * ceil(problem.n / block.n)
        self.workgroups = tiles * plan.split * problem.batches
        self.rounds = ceil(self.workgroups / target.cus.value)
        self.turns = ceil(self.rounds / cost.resident)
        self.iterations = cost.padded(ceil(ceil(problem.k / plan.split) / block.k))
        written = problem.out_bytes if plan.split == 1 else PARTIAL_BYTES
        self.store = block.m * block.n * written / target.store_bytes_per_clk.value
        self.outside = cost.ends + self.store + gpu.ramp_cycles.value
        of_a, of_b = problem.in_bytes
        rows = min(block.m, problem.m) * of_a + min(block.n, problem.n) * of_b
        self.loaded = rows * block.k
        memory = gpu.memory
        self.behind_ns = memory.mall_ns.value + memory.hbm_ns.value * self.moved.cold
        if any(row * problem.element_bytes % memory.alias_bytes.value == 0 for row in problem.rows):
            self.behind_ns += memory.alias_ns.value
        hbm = gpu.hbm_gb_per_s.value * memory.hbm_share.value
        self.hbm_seconds = self.moved.hbm / hbm * 1e-9
        self.mall_seconds = self.moved.fill / memory.mall_gb_per_s.value * 1e-9
        another = (gpu.start_us.value + gpu.gap_us.value) * 1e-6
        sums = problem.m * problem.n * problem.batches if plan.split > 1 else 0
        parts = PARTIAL_BYTES * plan.split * sums
        # Written, and read again from where they are.
        near = parts <= target.mall_mib.value * 2**20
        rate = memory.mall_gb_per_s.value if near else hbm
        self.reduce_seconds = 0.0
        if sums:
            moved = 2 * parts / rate + sums * problem.out_bytes / hbm
            self.reduce_seconds = moved * 1e-9 + another
        # Libraries have kernels of their own for such rows.
        copied = () if plan.blocked else copied_bytes(target, problem)
        self.copy_seconds = sum(2 * size / hbm * 1e-9 + another for size in copied)
        energy = gpu.energy
        far = self.moved.hbm + 2 * sum(copied) + (0 if near else 2 * parts)
        close = self.moved.fill + (2 * parts if near else 0)
        self.joules = 1e-12 * (
            problem.flops * energy.per_flop(problem.dtype, problem.element_bytes)
            + close * energy.pj_per_mall_byte.value
            + far * energy.pj_per_hbm_byte.value
        )

    @property
    def overhead(self) -> float:
        """Seconds in which no product is computed, whatever the clock."""
        return self.gpu.start_us.value * 1e-6 + self.reduce_seconds + self.copy_seconds

    def loads(self, clock: float) -> float:
        """Cycles that the loads of an iteration take to come, with all in flight that can be."""
        latency = self.gpu.memory.l2_cycles.value + self.behind_ns * clock
        return self.loaded * latency / self.gpu.target.global_bytes_in_flight.value

    def cycles(self, clock: float) -> float:
        """Of a compute unit that has as many workgroups as any.

        One in each place after the other, or all that the busiest unit works with one more start
        and end, whichever is more.
        """
        cost, loads = self.cost, self.loads(clock)
        places = self.turns * (self.iterations * max(cost.cycles, loads) + self.outside)
        work = self.iterations * max(cost.busy, loads) + self.store
        return max(places, self.rounds * work + self.outside - self.store)

    def seconds(self, clock: float) -> float:
        """Of the kernel alone."""
        compute = self.cycles(clock) / clock * 1e-9
        return max(compute, self.mall_seconds, self.hbm_seconds)

    def clock(self) -> float:
        """The highest whose power is allowed."""
        gpu, energy = self.gpu, self.gpu.energy
        peak = clock = gpu.clock_peak_ghz.value
        allowed = gpu.power_w.value - gpu.idle_w.value
        exponent, floor = energy.exponent.value, energy.floor.value * peak
        for _ in range(_STEPS):
            seconds = self.seconds(clock)
            budget = allowed * (seconds / 1e-3) ** -energy.droop.value
            volts = (max(clock, floor) / peak) ** (exponent - 1)
            spent = self.joules * volts / (seconds + self.overhead + gpu.gap_us.value * 1e-6)
            if clock == peak and spent <= budget:
                break
            clock = min(peak, clock * (budget / spent) ** (1 / (exponent if clock > floor else 1)))
        return clock

    def prediction(self, clock: float) -> Prediction:
        """The answer, with where the time goes."""
        gpu, cost, cus = self.gpu, self.cost, self.gpu.target.cus.value
        kernel = self.seconds(clock)
        to_us = 1e-3 / clock
        covered = self.problem.k / self.plan.split / self.plan.block.k
        useful = self.problem.m * self.problem.n / (self.plan.block.m * self.plan.block.n)
        useful *= self.plan.split * self.problem.batches
        matrix = useful / cus * covered * cost.matrix * to_us
        each, loads = self.rounds * self.iterations, self.loads(clock)
        left = self.cycles(clock)
        spent = []
        for cycles in (
            each * cost.matrix,
            each * (cost.cycles - cost.matrix),
            each * max(0.0, loads - cost.cycles),
            left,
        ):
            spent.append(min(left, max(0.0, cycles)))
            left -= spent[-1]
        whole, order, late, ends = (cycles * to_us for cycles in spent)
        bandwidth = kernel * 1e6 - sum(spent) * to_us
        name = "HBM bandwidth" if self.hbm_seconds >= self.mall_seconds else "MALL bandwidth"
        parts = (
            ("matrix unit", matrix),
            ("idle units and padding", max(0.0, whole - matrix)),
            (cost.unit if cost.unit != "matrix unit" else "order of the loop", order),
            ("latency of loads", late),
            ("start and end of tiles", ends),
            (name, max(0.0, bandwidth)),
            ("split-K", self.reduce_seconds * 1e6),
            ("copies to aligned rows", self.copy_seconds * 1e6),
            ("launch", gpu.start_us.value),
        )
        seconds = kernel + self.overhead
        limit, most = max(parts[1:], key=lambda part: part[1])
        if matrix >= most:
            limit = "power" if clock < gpu.clock_peak_ghz.value else "matrix unit"
        return Prediction(
            seconds,
            gpu.gap_us.value,
            self.problem.flops / seconds * 1e-12,
            clock,
            self.workgroups,
            self.rounds,
            limit,
            parts,
        )

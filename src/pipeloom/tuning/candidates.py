"""Which blocks there are for a type on a chip, and what each costs: at least, and as derived.

A bound takes a hundredth of a second, a derivation some seconds, and neither knows the problem: so
both are kept, and a thousand shapes share them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from pipeloom.drive.certifying import Derived
from pipeloom.drive.deriving import derive, derived_key
from pipeloom.drive.gemm import GemmSpec, first_order, placing_of
from pipeloom.drive.store import Store, digest, version
from pipeloom.errors import ConfigError, InternalError, OrderError
from pipeloom.judge.simulate import simulate
from pipeloom.judge.simulate.whole_gpu import Block, BlockCost
from pipeloom.machine.chips import TARGETS, target_for
from pipeloom.machine.dtypes import dtype_for
from pipeloom.machine.occupancy import Resources
from pipeloom.machine.target import Target
from pipeloom.order.instructions import refinable
from pipeloom.order.node_tasks import lower
from pipeloom.order.patterns import bound_of, matrix_cycles
from pipeloom.order.tasks import Lowered
from pipeloom.plain import from_plain, to_plain
from pipeloom.program import Program
from pipeloom.tuning.shapes import out_type
from pipeloom.write import EmitError, occupied

SIDES = (16, 32, 64, 96, 128, 160, 192, 224, 256)
ROW_BYTES = (64, 128, 256)
"""Of K, in one iteration."""
LINE_BYTES = 128
"""Of a cache line (CDNA3 and CDNA4): shorter rows only where LDS does not hold two such tiles."""
GRIDS = ((2, 2), (2, 4), (4, 2))
"""Waves along M and N; the longer side has the more."""
PRODUCT_SIDE = 16
"""Of one product of the matrix unit, which waves do not share."""
MOST_ASPECT, NARROW_ASPECT = 4, 8
"""Of the sides of a block, and of one that is as narrow as a product."""
SIMULATED_TRIPS = 4
LEAST_ENDS = 1200.0
"""Cycles of a tile beyond its iterations: the first loads' latency and their way to the products.
Derived blocks take 1250 to 2800."""
MOST_CYCLES = 1 << 40
_UNIT = re.compile(r"[a-zA-Z_ ]{1,40}")
_SOURCES = ("tuning/candidates.py", "judge/simulate/whole_gpu.py", "tuning/shapes.py")
"""Of this package, what decides a cost."""


def block_spec(chip: str | Target, dtype: str, block: Block, layout: str = "NT") -> GemmSpec:
    """The kernel that a block is timed with; what comes out depends on nothing else."""
    target = target_for(chip)
    return GemmSpec(
        arch=target.arch,
        machine=None if target in TARGETS else target,
        dtype=dtype,
        out=out_type(dtype),
        layout=layout,
        BM=block.m,
        BN=block.n,
        BK=block.k,
        waves_m=block.waves_m,
        waves_n=block.waves_n,
        short_ends=block.short_ends,
    )


def cost_key(spec: GemmSpec) -> str:
    """Of its cost in the store."""
    return digest(["block", version(*_SOURCES), to_plain(spec)])[:40]


def blocks(dtype: str) -> Iterator[Block]:
    """All that are worth a thought."""
    for m in SIDES:
        for n in SIDES:
            for row in ROW_BYTES:
                for high, wide in grids(m, n):
                    yield Block(m, n, row * 8 // dtype_for(dtype).bits, high, wide)


def grids(m: int, n: int) -> Iterator[tuple[int, int]]:
    """Waves along M and N, if the sides go together."""
    least, most = sorted((m, n))
    if least == PRODUCT_SIDE < most <= NARROW_ASPECT * least:
        wide = min(4, most // PRODUCT_SIDE)
        yield (1, wide) if n == most else (wide, 1)
    elif least > PRODUCT_SIDE and most <= MOST_ASPECT * least:
        for high, wide in GRIDS:
            if high == wide or (high > wide) == (m > n):
                yield high, wide


def bounds(
    chip: str | Target, dtype: str, store: Store | None = None, layout: str = "NT"
) -> dict[GemmSpec, BlockCost]:
    """Every block that the chip can run, with what it takes at least; kept as one entry."""
    kept = Store.usual() if store is None else store
    jobs = {block: block_spec(chip, dtype, block, layout) for block in blocks(dtype)}
    key = digest(["bounds", version(*_SOURCES), to_plain(list(jobs.values()))])[:40]
    found = kept.load(key, lambda entry: _bounds(entry, jobs))
    if found is None:
        costs = [(block, _bound(job)) for block, job in jobs.items()]
        rows = [[to_plain(block), to_plain(cost)] for block, cost in costs if cost is not None]
        if not rows:
            lowered(next(iter(jobs.values())))  # which says why there are none
        kept.write(key, {"bounds": rows})
        found = _bounds({"bounds": rows}, jobs)
    return found


def _bounds(entry: dict[str, Any], jobs: Mapping[Block, GemmSpec]) -> dict[GemmSpec, BlockCost]:
    found = {from_plain(Block, block): _cost(cost) for block, cost in entry["bounds"]}
    if not found or not found.keys() <= jobs.keys():
        raise ConfigError("bounds of other blocks", field="store")
    return {jobs[block]: cost for block, cost in found.items()}


def _cost(plain: object) -> BlockCost:
    """What the store says that a block costs; cycles are a matter of speed, and believed."""
    return checked_cost(from_plain(BlockCost, plain))


def checked_cost(cost: BlockCost) -> BlockCost:
    """The same, if its numbers can be such."""
    whole = 0 < cost.cycles < MOST_CYCLES and 0 <= cost.matrix < MOST_CYCLES
    ends = abs(cost.ends) < MOST_CYCLES and 0 <= cost.least < MOST_CYCLES
    beside = 1 <= cost.resident < MOST_CYCLES and 0 <= cost.busy < MOST_CYCLES
    steps = 1 <= cost.step < MOST_CYCLES
    if not (whole and ends and beside and steps and _UNIT.fullmatch(cost.unit)):
        raise ConfigError(f"no block costs {cost}", field="store")
    return cost


def _bound(job: GemmSpec) -> BlockCost | None:
    """What no order of it can beat; None where it cannot be lowered or is not worth it."""
    target, block = job.target, job.block
    row = job.element.bytes(block.k)
    staged = 2 * (block.m + block.n) * row
    if staged > target.lds_bytes or (row < LINE_BYTES and 2 * staged <= target.lds_bytes):
        return None
    try:
        tasks = lowered(job)
        if not refinable(tasks):
            return None
        cost = least_cost(tasks, block, int(staged))
        if job.blocks and cost.cycles < target.global_latency.value:
            first_order(tasks)  # there is none where registers do not hold scales for so long
        return cost
    except (ConfigError, OrderError):
        return None


def least_cost(tasks: Lowered, block: Block, staged: int) -> BlockCost:
    """A bound on any order of a loop; ``staged`` bytes of LDS hold the tiles of two iterations."""
    target = tasks.target
    cycles, unit = bound_of(tasks)
    # Of registers, the sums alone: what else a wave holds only its order says.
    sums = block.m * block.n // (block.waves * target.wave_lanes.value)
    fits = Resources(sums, 0, 0, staged, block.waves, target).workgroups
    matrix = float(matrix_cycles(tasks))
    return BlockCost(float(cycles), LEAST_ENDS, matrix, unit, resident=fits, busy=float(cycles))


def lowered(job: GemmSpec) -> Lowered:
    """The tasks of a block's loop; raises ``ConfigError`` or ``OrderError`` for what is none."""
    loop = job.loop()
    return lower(loop.meaning, job.target, loop.ops, loop.staged, job.waves)


def time_block(job: GemmSpec, store: Store | None = None) -> BlockCost | None:
    """Derive, prove and simulate; None where no order fits, or none that can be written. Kept."""
    kept = Store.usual() if store is None else store
    known, cost = known_block(job, kept)
    if known:
        return cost
    cost = None
    try:
        require_written(job)
        derived = derive(
            job.loop(),
            job.target,
            job.waves,
            short_ends=job.short_ends,
            keep_interrupted=False,
            store=kept,
        )
        if derived is not None:
            fits = require_written(job, derived.program).workgroups
            cost = cost_of(derived, job, fits)
    except (ConfigError, OrderError, EmitError):
        pass
    except InternalError as error:  # a fault of ours in one block must not end a long run
        warnings.warn(f"{job.block} for {job.arch} is left out: {error}", stacklevel=2)
    kept.write(
        cost_key(job), {"job": to_plain(job), "cost": None if cost is None else to_plain(cost)}
    )
    return cost


def require_written(job: GemmSpec, program: Program | None = None) -> Resources:
    """What a program of the block occupies, the first order if none is given.

    Raises ``EmitError`` for what the writer does not take.

    The writer itself is asked. It plans every instruction, and writes none, so that costs a tenth
    of a second, where an order that cannot be written would cost its search.
    """
    return occupied(program or first_order(lowered(job)), placing=placing_of(job))


def known_block(job: GemmSpec, store: Store | None = None) -> tuple[bool, BlockCost | None]:
    """Whether it has been timed, and what came out."""
    kept = Store.usual() if store is None else store
    found = kept.load(cost_key(job), lambda e: (None if e["cost"] is None else _cost(e["cost"]),))
    return (False, None) if found is None else (True, found[0])


def entries(job: GemmSpec, store: Store) -> dict[str, dict[str, Any]]:
    """What the store holds of a block that was timed: its cost and its program."""
    derived = derived_key(job.loop(), job.target, job.waves, short_ends=job.short_ends)
    found = {key: store.read(key) for key in (derived, cost_key(job))}
    return {key: entry for key, entry in found.items() if entry is not None}


def cost_of(derived: Derived, job: GemmSpec, resident: int) -> BlockCost:
    """The cycles of a proved program, with those of its ends beyond the iterations.

    ``resident`` workgroups of it fit a compute unit.
    """
    program, block = derived.program, job.block
    step = program.step
    count = program.iterations.at(program.min_trips) + step * SIMULATED_TRIPS
    trace = simulate(program, iterations=count)
    written = block.m * block.n * job.out_element.bits // 8
    store = written / program.target.store_bytes_per_clk.value
    ends = trace.total_cycles - count * derived.cycles - store
    least = program.iterations.at(program.min_trips)
    return BlockCost(
        derived.cycles,
        max(0.0, ends),
        float(derived.matrix),  # as the store gives it back
        derived.unit,
        least,
        step,
        resident,
        float(derived.bound),
    )

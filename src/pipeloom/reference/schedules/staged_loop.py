"""One K tile of the matmul that stages through registers: global, registers, LDS, fragments.

    load      A and B of the tile to staging registers, all waves together
    store     staging registers to one LDS buffer
    fragment  K step t of the tile to registers, each wave its rows of A and all of B; a step is
              16 bytes per lane or a matrix instruction deep, whichever is more
    MMA       K step t; each step has accumulators of its own share

    load -> store -> fragment t -> MMA t -> MMA t of the next tile

Waves stand four along M. Staging registers, LDS buffers and fragments all rotate.
"""

from __future__ import annotations

from math import ceil

from pipeloom.errors import ConfigError
from pipeloom.machine.target import LOAD_BYTES, Target
from pipeloom.order.modulo import Budget, Reservation, Unit
from pipeloom.reference.graph import DepEdge
from pipeloom.reference.mi355x import SingleBufferTag
from pipeloom.reference.ops import OpDesc, OpRole, ResourceKind
from pipeloom.reference.pipelining.costs import ISSUE, LDS, MEMORY, MFMA, VMEM, TileCosts
from pipeloom.reference.pipelining.loop import (
    OpCycles,
    RotatingBuffer,
    RotatingRegisters,
    Rotation,
    TileLoop,
    TileOp,
)
from pipeloom.reference.schedules.gemm_loop import tile_limits
from pipeloom.reference.tile import REGISTER_BYTES, GemmTile


def staged_tile_loop(
    tile: GemmTile,
    machine: Target,
    budget: Budget | None = None,
    global_latency: int | None = None,
) -> TileLoop:
    """One K tile of ``tile`` on ``machine``; limits not in ``budget`` are the machine's."""
    _require_whole(tile)
    costs, steps = TileCosts(tile, machine, global_latency), tile.k_steps
    limits = tile_limits(tile, machine, budget)
    slots = max(2, -(-(steps + 2) // steps))
    issue = Reservation(ISSUE)
    mma_cycles = costs.mma().latency // steps
    pause = Reservation(ISSUE, mma_cycles - costs.quantum, costs.quantum)
    holds_issue = (pause,) * slots if mma_cycles > costs.quantum else ()
    texture = ceil(tile.tile_bytes / machine.vmem_bytes_per_clk.value)
    memory = ceil(tile.tile_bytes / machine.global_bytes_per_clk.value)
    written = ceil(tile.tile_bytes / machine.lds_bytes_per_clk.value)
    read = sum(costs.fragment(x).uses[0].occupancy for x in "AB") // steps
    load = OpCycles(
        costs.global_latency + max(memory, texture),
        0,
        (Reservation(VMEM, texture), Reservation(MEMORY, memory), issue),
    )
    store = OpCycles(
        machine.lds_latency.value + written, written, (Reservation(LDS, written), issue)
    )
    fragment = OpCycles(
        machine.lds_latency.value + read,
        machine.lds_latency.value + read,
        (Reservation(LDS, read), issue),
    )
    mma = OpCycles(mma_cycles, mma_cycles, (Reservation(MFMA, mma_cycles), *holds_issue))
    staging = tile.tile_loads * LOAD_BYTES // REGISTER_BYTES
    per_step = sum(tile.fragment_registers(x) for x in "AB") // steps
    most = _copies(limits, staging, steps * per_step)
    fragments, mmas = range(2, 2 + steps), range(2 + steps, 2 + 2 * steps)
    return TileLoop(
        name=f"gemm_tile {tile.grid.name} {tile.BM}x{tile.BN}x{tile.BK}",
        units=(Unit(MFMA), Unit(LDS), Unit(VMEM), Unit(MEMORY), Unit(ISSUE, slots)),
        ops=(
            TileOp("load", _load_op(tile, load), load),
            TileOp(
                "store",
                OpDesc(
                    int(SingleBufferTag.STORE_SMEM),
                    resource=ResourceKind.LDS,
                    latency=store.latency,
                    role=OpRole.SHARED_STORE,
                    lgkm_cost=tile.tile_loads,
                ),
                store,
            ),
            *(
                TileOp(f"frag k{t}", _fragment_op(tile, fragment, t), fragment)
                for t in range(steps)
            ),
            *(TileOp(f"mma k{t}", _mma_op(mma, t), mma) for t in range(steps)),
        ),
        edges=(
            DepEdge(0, 1),
            *(DepEdge(1, number) for number in fragments),
            *(DepEdge(f, m) for f, m in zip(fragments, mmas, strict=True)),
            *(DepEdge(number, number, loop_distance=1) for number in mmas),
        ),
        buffers=(RotatingBuffer("LDS", tile.tile_bytes, (1,), tuple(fragments)),),
        registers=(
            RotatingRegisters("staging", staging, 0, (1,), most),
            *(
                RotatingRegisters(f"frag k{t}", per_step, f, (m,), most)
                for t, (f, m) in enumerate(zip(fragments, mmas, strict=True))
            ),
        ),
        rotations=(
            Rotation(0, "stage", "staging"),
            Rotation(1, "stage", "LDS"),
            Rotation(1, "subtile", "staging"),
            *(Rotation(f, "stage", "LDS") for f in fragments),
            *(
                Rotation(op, "subtile", f"frag k{t}", steps)
                for t, pair in enumerate(zip(fragments, mmas, strict=True))
                for op in pair
            ),
        ),
        budget=limits,
        publish=costs.publish,
        quantum=costs.quantum,
    )


def _require_whole(tile: GemmTile) -> None:
    """A fragment holds all rows of a wave: there is one MMA op per K step, not one per quadrant."""
    if (tile.m, tile.n) != (1, 1):
        raise ConfigError(
            f"a tile staged through registers has {tile.m} x {tile.n} quadrants, but its fragments "
            "are cut along K only",
            hint="leave m and n out, or set both to 1",
            field="GemmTile.m",
        )
    if tile.k_mmas % tile.k_steps:
        raise ConfigError(
            f"BK = {tile.BK} is {tile.k_mmas} matrix instructions deep, which {tile.k_steps} reads "
            "of 16 bytes per lane do not share evenly",
            hint=f"make BK a multiple of {LOAD_BYTES // tile.lane_bytes * tile.MMA_K}",
            field="GemmTile.BK",
        )


def _copies(limits: Budget, staging: int, fragments: int) -> int:
    assert limits.registers is not None
    copies = limits.registers // (staging + fragments)
    if copies < 1:
        raise ConfigError(
            f"staging and fragments of one K tile take {staging} + {fragments} registers per lane, "
            f"but the budget is {limits.registers}",
            hint="make BK, BM or BN smaller",
            field="budget.registers",
        )
    return copies


def _load_op(tile: GemmTile, cycles: OpCycles) -> OpDesc:
    return OpDesc(
        int(SingleBufferTag.LOAD_DRAM),
        vm_cost=tile.tile_loads,
        resource=ResourceKind.GLOBAL_MEM,
        latency=cycles.latency,
        role=OpRole.GLOBAL_LOAD,
    )


def _fragment_op(tile: GemmTile, cycles: OpCycles, step: int) -> OpDesc:
    return OpDesc(
        int(SingleBufferTag.LOAD_FRAG),
        subtile=step,
        lgkm_cost=sum(tile.fragment_reads(x) for x in "AB") // tile.k_steps,
        resource=ResourceKind.LDS,
        latency=cycles.latency,
        role=OpRole.FRAGMENT_LOAD,
        vgpr_def=sum(tile.fragment_registers(x) for x in "AB") // tile.k_steps,
    )


def _mma_op(cycles: OpCycles, step: int) -> OpDesc:
    return OpDesc(
        int(SingleBufferTag.COMPUTE),
        subtile=step,
        resource=ResourceKind.MMA_UNIT,
        latency=cycles.latency,
        role=OpRole.COMPUTE,
    )

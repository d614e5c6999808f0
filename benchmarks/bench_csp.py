"""How long CSP takes to prove its optimum, and what it gains over greedy.

    python benchmarks/bench_csp.py [--quick]

All bodies are generated here: the default ping-pong loop, the same loop with larger MMA grids up
to 96 ops, and seeded random bodies. Times are the best of three runs of ``CspStrategy.order``,
everything included, except where one run takes over a second.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import time
from collections.abc import Iterator

from pipeloom.reference.graph import DepEdge, DepKind, LoopBody
from pipeloom.reference.ops import KOffsetKind, OpDesc, OpRole, ResourceKind
from pipeloom.reference.strategies.contract import OrderLimits
from pipeloom.reference.strategies.cost import order_cost
from pipeloom.reference.strategies.csp import CspStrategy
from pipeloom.reference.strategies.greedy import greedy_schedule, simple_greedy

Case = tuple[str, LoopBody, OrderLimits]


def ping_pong(rows: int, columns: int, max_globals: int) -> LoopBody:
    """Two halves of rows x columns MMAs, their fragments, and a load per fragment.

    Interleaved as double_buffer_reorder does with BlockSizing(4, 2, max_globals): each MMA brings
    the fragments it is the first to need, then as many loads as its block has room for. The last
    A load of each half fetches for the other half.
    """
    ops: list[OpDesc] = []
    for half in (0, 1):
        loads = [(0, rows - 1)]
        loads += [(0, row) for row in range(rows - 1)] + [(1, column) for column in range(columns)]
        seen: set[tuple[int, int]] = set()
        for row in range(rows):
            for column in range(columns):
                room = (2 if (0, row) in seen else 4) - 1
                for channel, sub in ((1, column), (0, row)):
                    if (channel, sub) not in seen:
                        seen.add((channel, sub))
                        ops.append(_fragment(channel, half, sub))
                        room -= 1
                if max_globals:
                    room = min(max(room, 1), max_globals)
                for _ in range(min(room, len(loads))):
                    channel, sub = loads.pop(0)
                    ops.append(_load(channel, half, sub, special=(channel, sub) == (0, rows - 1)))
                ops.append(_mma(row, column))
    half = len(ops) // 2
    edges = [
        DepEdge(i, j, kind)
        for i, p in enumerate(ops)
        for j, c in enumerate(ops)
        if (kind := _dependence(i >= half, p, j >= half, c)) is not None
    ]
    return LoopBody(ops, edges)


def _fragment(channel: int, half: int, sub: int) -> OpDesc:
    return OpDesc(
        3 + channel,
        half,
        sub,
        resource=ResourceKind.LDS,
        latency=20,
        role=OpRole.FRAGMENT_LOAD,
        channel=channel,
        vgpr_def=8,
    )


def _load(channel: int, half: int, sub: int, *, special: bool) -> OpDesc:
    return OpDesc(
        channel,
        1 - half if special else half,
        sub,
        KOffsetKind.K_PREV if special and half == 0 else KOffsetKind.K0,
        resource=ResourceKind.GLOBAL_MEM,
        latency=200,
        role=OpRole.GLOBAL_LOAD,
        channel=channel,
    )


def _mma(row: int, column: int) -> OpDesc:
    return OpDesc(
        5,
        row,
        column,
        resource=ResourceKind.MMA_UNIT,
        latency=16,
        role=OpRole.COMPUTE,
        vgpr_def=4,
    )


def _dependence(second: bool, p: OpDesc, also: bool, c: OpDesc) -> DepKind | None:
    roles = (p.role, c.role)
    if roles == (OpRole.FRAGMENT_LOAD, OpRole.COMPUTE):
        match = c.stage if p.channel == 0 else c.subtile
        return DepKind.FLOW if second == also and match == p.subtile else None
    if roles == (OpRole.COMPUTE, OpRole.COMPUTE):
        same = (p.stage, p.subtile) == (c.stage, c.subtile)
        return DepKind.FLOW if also and not second and same else None
    if (p.channel, p.stage) != (c.channel, c.stage):
        return None
    if roles == (OpRole.GLOBAL_LOAD, OpRole.FRAGMENT_LOAD):
        return DepKind.FLOW if p.k_offset is KOffsetKind.K_PREV else None
    if roles == (OpRole.FRAGMENT_LOAD, OpRole.GLOBAL_LOAD):
        return DepKind.ANTI if c.k_offset is not KOffsetKind.K_PREV else None
    return None


def random_body(size: int, seed: int) -> LoopBody:
    """MMAs, fragments, loads, VALU and scalar ops with random latencies, registers and edges."""
    rng = random.Random(seed)
    kinds = (
        (35, ResourceKind.MMA_UNIT, OpRole.COMPUTE, (16, 16, 32)),
        (30, ResourceKind.LDS, OpRole.FRAGMENT_LOAD, (20, 30, 40)),
        (18, ResourceKind.GLOBAL_MEM, OpRole.GLOBAL_LOAD, (100, 200)),
        (12, ResourceKind.VALU, OpRole.VALU_COMPUTE, (4, 8, 16)),
        (5, ResourceKind.SCALAR, OpRole.NONE, (0, 4)),
    )
    ops = []
    for i in range(size):
        closing = i in (size // 2 - 1, size - 1)
        kind = kinds[0] if closing else rng.choices(kinds, [k[0] for k in kinds])[0]
        ops.append(
            OpDesc(
                0,
                resource=kind[1],
                role=kind[2],
                latency=rng.choice(kind[3]),
                vgpr_def=rng.choice((0, 4, 8)),
                vgpr_kill=rng.choice((0, 4, 8)) if rng.random() < 0.3 else 0,
            )
        )
    edges = []
    for i in range(1, size):
        if ops[i].role is OpRole.GLOBAL_LOAD and rng.random() < 0.6:
            continue
        edges += [DepEdge(rng.randrange(max(0, i - 12), i), i) for _ in range(rng.randrange(3))]
    return LoopBody(ops, edges)


def cases(quick: bool) -> Iterator[Case]:
    """Name, body and limits of each row."""
    for max_globals in (0, 1):
        for penalty in (0, 8, 20, 40):
            limits = OrderLimits(
                halves=True, max_globals=max_globals, lds_contention_penalty=penalty
            )
            yield f"ping-pong 2x2, max_globals {max_globals}", ping_pong(2, 2, max_globals), limits
    for rows, columns in ((2, 3), (3, 3), (4, 4), (2, 11)):
        for penalty in (8, 20):
            limits = OrderLimits(halves=True, max_globals=1, lds_contention_penalty=penalty)
            yield f"ping-pong {rows}x{columns}", ping_pong(rows, columns, 1), limits
    if quick:
        return
    for seed in range(3):
        for halves in (True, False):
            limits = OrderLimits(halves=halves, lds_contention_penalty=8)
            name = f"random {seed}, {'halves' if halves else 'whole'}"
            yield name, random_body(96, seed), limits


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out the random bodies")
    arguments = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cpus, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    print(
        f"{'body':28} {'ops':>3} {'penalty':>7} {'greedy':>6} {'csp':>5} {'VGPR':>5} "
        f"{'bound':>5} {'proved':>6} {'nodes':>7} {'seconds':>8}"
    )
    for name, body, limits in cases(arguments.quick):
        penalty = limits.lds_contention_penalty
        greedy = greedy_schedule(body) if limits.halves else simple_greedy(body)
        before = order_cost(body, greedy, lds_contention_penalty=penalty)
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            certificate = CspStrategy().order(body, limits).certificate
            best = min(best, time.perf_counter() - start)
            if best > 1:
                break
        print(
            f"{name:28} {len(body):3} {penalty:7} {before.makespan:6} {certificate.makespan:5} "
            f"{certificate.vgpr_peak:5} {certificate.lower_bound:5} "
            f"{'yes' if certificate.proved else 'no':>6} {certificate.nodes:7} {best:8.4f}"
        )


if __name__ == "__main__":
    main()

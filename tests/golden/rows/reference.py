"""What the specification's system makes of settings and bodies that are drawn: a row for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from random import Random
from typing import Any

from benchmarks.kernel_results import bare, digest
from pipeloom.errors import ScheduleError
from pipeloom.plain import key_paths
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.graph import DepEdge, LoopBody
from pipeloom.reference.lift import lift
from pipeloom.reference.ops import OpDesc, OpRole, ResourceKind
from pipeloom.reference.schedule_config import UNLIMITED_VGPR, ScheduleConfig
from pipeloom.reference.schedules import SCHEDULES
from pipeloom.reference.spec import build_schedule
from pipeloom.reference.strategies import STRATEGIES, OrderLimits
from pipeloom.reference.strategies.cost import lower_bound, order_cost
from pipeloom.reference.words import knobs, tile_text, unsynchronised_note
from tests.golden.rows.answers import answers

SETTINGS = 40
"""So many draws of each schedule and each way to synchronise."""
SYNCS = ("reference", "proven", "repaired")
NUMBERS = (0, 1, 1, 2, 2, 3, 4, 8, 16, 32, 64, 96, 128, 255)
WORDS = ("csp", "greedy", "identity", "mi355x", "auto", True, 1)
FLAGS = {f.name for f in fields(ScheduleConfig) if f.type == "bool"} | {"is_fp8", "b_before_a"}
TILES: dict[str, dict[str, tuple[int, ...]]] = {
    "ping_pong": {"BM": (128, 256, 192), "BN": (128, 256), "BK": (64, 128, 32)},
    "four_wave": {"BM": (64, 128, 256), "BN": (64, 128, 96), "BK": (32, 64, 128)},
    "single_buffer": {"BM": (64, 128), "BN": (64, 128, 256), "BK": (32, 64, 128)},
}
BODIES = 60
KINDS = (
    (ResourceKind.MMA_UNIT, OpRole.COMPUTE),
    (ResourceKind.MMA_UNIT, OpRole.COMPUTE),
    (ResourceKind.LDS, OpRole.FRAGMENT_LOAD),
    (ResourceKind.LDS, OpRole.FRAGMENT_LOAD),
    (ResourceKind.GLOBAL_MEM, OpRole.GLOBAL_LOAD),
    (ResourceKind.GLOBAL_MEM, OpRole.GLOBAL_LOAD),
    (ResourceKind.VALU, OpRole.VALU_COMPUTE),
    (ResourceKind.LDS, OpRole.SHARED_STORE),
    (ResourceKind.SCALAR, OpRole.SYNC),
)


def schedule_rows() -> dict[str, dict[str, str]]:
    """Each schedule with settings that are drawn: what is said of it, or why it is refused."""
    return {
        f"{name} {sync}": {
            f"{number}: {' '.join(drawn)}": "; ".join(_compiled(name, drawn, sync))
            for number in range(SETTINGS if sync == "reference" else SETTINGS // 10)
            for drawn in [_settings(name, Random(f"{name} {number} {sync}"))]
        }
        for name in SCHEDULES
        for sync in SYNCS
    }


def _settings(name: str, rng: Random) -> list[str]:
    paths = [p for p in key_paths(SCHEDULES[name]) if not p.endswith("*") and p != "schedule"]
    paths = [p for p in paths if not p.startswith("geometry")]
    drawn: dict[str, Any] = {}
    for path in rng.choices(paths, k=rng.choice((1, 1, 2, 3))):
        if path.endswith((".name", ".scheduling")) or rng.random() < 0.03:
            drawn[path] = rng.choice(WORDS)
        elif path.split(".")[-1] in FLAGS:
            drawn[path] = rng.random() < 0.8
        else:
            drawn[path] = rng.choice(NUMBERS)
        if "block_sizing" in path:
            sizes = {"heavy": rng.randint(1, 6), "light": rng.randint(1, 4), "max_globals": 0}
            drawn |= {f"target.block_sizing.{k}": n for k, n in sizes.items()} | {path: 1}
    if rng.random() < 0.7:
        fp8 = rng.random() < 0.3
        tile = {key: rng.choice(sizes) for key, sizes in TILES[name].items()}
        tile |= {"MMA_K": 128 if fp8 else rng.choice((16, 32, 32)), "elem_bytes": 1 if fp8 else 2}
        drawn |= {f"geometry.{key}": size for key, size in tile.items()}
    return [f"{key}={str(value).lower()}" for key, value in drawn.items()]


def _compiled(name: str, drawn: list[str], sync: Any) -> Iterator[str]:
    try:
        compiled = build_schedule(name, drawn, sync=sync)
    except ScheduleError as error:
        yield " ".join(str(error).split())
        return
    said = compiled.certificate
    yield f"{said.strategy} {said.makespan} of {said.lower_bound}, {said.vgpr_peak} registers"
    yield f"{said.proved} after {said.nodes}"
    yield f"{len(compiled.prologue)}, {len(compiled.kernel)}, {len(compiled.epilogue)} entries"
    shown = f"{knobs(compiled)}{unsynchronised_note(compiled)}"
    yield f"{tile_text(compiled)}, {digest(compiled.to_json())} {digest(shown)}"
    yield f"{answers(compiled)}; {answers(compiled.config)}"
    if compiled.geometry is not None:
        yield answers(compiled.geometry)
    yield from compiled.notes
    yield from _lifted(compiled)


def _lifted(compiled: CompiledSchedule) -> Iterator[str]:
    try:
        program = lift(compiled)
    except ScheduleError as error:
        yield " ".join(str(error).split())
        return
    yield digest(bare(program))


def body_rows() -> dict[str, dict[str, str]]:
    """Bodies that are drawn, by each strategy, within limits that are drawn, too."""
    return {f"seed {seed}": _ordered(Random(seed)) for seed in range(BODIES)}


def _ordered(rng: Random) -> dict[str, str]:
    body = _body(rng)
    limits = OrderLimits(
        halves=rng.random() < 0.4,
        max_globals=rng.choice((0, 0, 1, 2)),
        max_vgpr=rng.choice((UNLIMITED_VGPR, UNLIMITED_VGPR, 3, 6, 9)),
        lds_contention_penalty=rng.choice((0, 2, 5, 12)),
        mma_serial=rng.random() < 0.8,
        node_limit=rng.choice((None, None, 5, 40)),
    )
    found = {"bound": f"{lower_bound(body, **limits.model)}"}
    for strategy in STRATEGIES.values():
        try:
            done = strategy.order(body, limits)
        except ScheduleError as error:
            found[strategy.name] = " ".join(str(error).split())
            continue
        said = done.certificate
        cost = order_cost(body, done.order, **limits.model)
        found[strategy.name] = (
            f"{' '.join(map(str, done.order))}: {said.makespan} of {said.lower_bound}, "
            f"{said.vgpr_peak} registers, {'proved ' if said.proved else ''}after {said.nodes}, "
            f"{digest(f'{cost}')}"
        )
    return found


def _body(rng: Random) -> LoopBody:
    count = rng.randint(1, 9)
    ops = []
    for _ in range(count):
        resource, role = rng.choice(KINDS)
        ops.append(
            OpDesc(
                0,
                resource=resource,
                role=role,
                latency=rng.choice((0, 1, 3, 4, 7, 10)),
                vgpr_def=rng.choice((0, 1, 2, 4)),
                vgpr_kill=rng.choice((0, 0, 1, 3)),
            )
        )
    hidden = rng.sample(range(count), count)
    if rng.random() < 0.6:
        hidden = sorted(hidden, key=lambda i: i >= count // 2)
    edges = [
        DepEdge(hidden[before], hidden[at], loop_distance=0)
        for at in range(count)
        for before in range(at)
        if rng.random() < 0.25
    ]
    if count > 1 and rng.random() < 0.5:
        edges.append(DepEdge(hidden[-1], hidden[0], loop_distance=1))
    return LoopBody(ops, edges)

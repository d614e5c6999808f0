"""How many waves a loop has room for; what no order fits is refused before it is lowered."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import prod

from pipeloom.declare.loop import Loop
from pipeloom.errors import ConfigError, OrderError
from pipeloom.machine.target import Target
from pipeloom.order.instructions import unfit
from pipeloom.order.matrix_choice import divided
from pipeloom.order.node_tasks import lower
from pipeloom.program.nodes import NodeKind


def check_loop(owner: str, loop: object) -> None:
    """Refuse what is no loop, above all the function that makes one."""
    if not isinstance(loop, Loop):
        raise ConfigError(
            f"{owner} takes a Loop, not {loop!r}",
            hint="pass what it returns: call it" if callable(loop) else "declare a Loop",
            field="loop",
        )


def check_room(loop: Loop, target: Target, waves: object) -> None:
    """Refuse tiles that no order fits, before they are cut into instructions.

    All carried values of f32 lie in the registers of all waves, a staged tile in LDS.
    """
    meaning, sizes = loop.meaning, [waves] if isinstance(waves, int) else []
    count = prod(waves.values() if isinstance(waves, Mapping) else sizes)
    room = max(count, 1) * target.wave_lanes.value * target.vgprs_per_simd_lane.value
    carried = [n.type.elements for n in meaning.nodes if n.kind is NodeKind.CARRY]
    if sizes and sum(carried) > room:
        raise OrderError(
            f"{meaning.name} carries {sum(carried)} numbers from iteration to iteration, and the "
            f"registers of {count} wave(s) hold {room}",
            hint="declare a smaller tile, or take more waves",
            field="tile",
        )
    lds = target.lds_kib.value * 1024
    for name in loop.staged:
        kind = meaning[name].type
        if kind.elements * kind.dtype.bits // 8 > lds:
            raise OrderError(
                f"{meaning.name}: a tile of {name!r}, {kind}, does not fit into {lds} bytes of LDS",
                hint="declare a smaller tile",
                field=name,
            )


def usual_waves(loop: Loop, target: Target, waves: int) -> int:
    """How many waves compute a loop where nobody says: as many of ``waves`` as can share it."""
    while waves > 1:
        with suppress(ConfigError):
            divided(loop.meaning, target, waves, None, loop.staged)
            break
        waves //= 2
    return waves


def unwoven(loop: Loop, target: Target, waves: int | Mapping[str, int]) -> str:
    """Why ``derive`` gives None for it."""
    return unfit(lower(loop.meaning, target, loop.ops, loop.staged, waves))

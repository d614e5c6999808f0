"""How many vector registers are live along a wave's path.

A register is live from the instruction that writes it, be it a load still under way, to the last
that reads it. Loops are followed twice, so that what the next trip needs is live at the end of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeloom.judge.emulate.register_numbers import VGPR
from pipeloom.machine_code.lowering import MachineLine

Masks = Mapping[int, tuple[int, int]]


def live_counts(
    parts: Sequence[Sequence[int]], lines: Mapping[int, MachineLine]
) -> tuple[list[int], list[int], list[int]]:
    """Per part (before the loop, the loop, after it) and line, the VGPRs and AGPRs live there."""
    before, loop, after = parts
    masks = {at: (_mask(lines[at].reads), _mask(lines[at].writes)) for p in parts for at in p}
    behind, live = _backwards(after, masks, 0)
    _, again = _backwards(loop, masks, live)
    inside, live = _backwards(loop, masks, live | again)
    ahead, _ = _backwards(before, masks, live)
    return ahead, inside, behind


def _mask(registers: Sequence[int]) -> int:
    return sum(1 << (r - VGPR) for r in set(registers) if r >= VGPR)


def _backwards(path: Sequence[int], masks: Masks, live: int) -> tuple[list[int], int]:
    counts = [0] * len(path)
    for number in range(len(path) - 1, -1, -1):
        reads, writes = masks[path[number]]
        held = live | writes
        live = (live & ~writes) | reads
        counts[number] = (held | reads).bit_count()
    return counts, live

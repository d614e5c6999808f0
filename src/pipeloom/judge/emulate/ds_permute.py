"""ds_bpermute (pull), ds_permute (push) and ds_swizzle: data crosses lanes through LDS's crossbar.

They touch no LDS bytes, but count in lgkmcnt like a read. A lane that would read a disabled lane
gets zero.
"""

from __future__ import annotations

import numpy as np

from pipeloom.array_kinds import Places
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.operands import data_row, unsupported
from pipeloom.judge.emulate.pending import Pending, WaitQueue
from pipeloom.judge.emulate.register_numbers import LANES, VGPR
from pipeloom.judge.emulate.screening import check_in_flight, check_sources, settle_writes
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.wave import NEVER_WRITTEN, POISON_WORD, Wave, lanes_of, mask_of

_NAMES = ("ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32")
_EVERY_LANE = np.arange(LANES)


def build(instruction: Decoded) -> MicroOp | None:
    """The step of a lane permutation, or None."""
    if instruction.name not in _NAMES:
        return None
    name, fields = instruction.name, instruction.fields
    swizzle = name == "ds_swizzle_b32"
    address_row = fields["addr"]
    source_row = address_row if swizzle else fields["data0"]
    target = data_row(instruction, "vdst")
    offset = fields["offset0"] | fields["offset1"] << 8
    pattern = _swizzle_pattern(instruction, offset) if swizzle else None
    written = 1 << (VGPR + target)

    def sources(wave: Wave) -> Places:
        """Lane that each lane reads, -1 for none."""
        if pattern is not None:
            return pattern
        chosen: Places = (wave.v[address_row].astype(np.int64) + offset >> 2) & 63
        if name == "ds_bpermute_b32":
            return chosen
        result = np.full(LANES, -1, np.int64)
        active = np.flatnonzero(wave.active)
        result[chosen[active]] = active
        return result

    def run(wave: Wave) -> None:
        chosen = sources(wave)
        seen = (chosen >= 0) & wave.active[chosen]
        data = np.where(seen, wave.v[source_row][chosen], np.uint32(0))
        active = wave.active.copy()
        poisoned = wave.poison.get(VGPR + source_row, 0)
        carried = mask_of(lanes_of(poisoned)[chosen] & seen & active) if poisoned else 0
        cause = wave.poison_cause.get(VGPR + source_row, NEVER_WRITTEN)
        wave.v[target, active] = POISON_WORD

        def land() -> None:
            np.copyto(wave.v[target], data, where=active)
            if carried:
                wave.add_poison(VGPR + target, carried, cause)

        wave.group.issue(wave, Pending(instruction, WaitQueue.LGKM, land, written, wave.exec_mask))

    def screen(wave: Wave, step: MicroOp) -> None:
        if not swizzle:
            check_sources(wave, step, [VGPR + address_row])
        check_in_flight(wave, step, VGPR + source_row, wave.exec_mask)
        settle_writes(wave, step, loading=WaitQueue.LGKM)

    reads = 1 << (VGPR + address_row) | 1 << (VGPR + source_row)
    return MicroOp(instruction, run, reads, written, screen)


def _swizzle_pattern(instruction: Decoded, offset: int) -> Places:
    if offset >> 15:
        if offset & 0xFF00 != 0x8000:
            raise unsupported(instruction, f"swizzle mode {offset:#x}")
        quad = np.array([offset >> (2 * i) & 3 for i in range(4)])
        shuffled: Places = (_EVERY_LANE & ~3) + quad[_EVERY_LANE & 3]
        return shuffled
    keep, set_bits, flip = offset & 31, offset >> 5 & 31, offset >> 10 & 31
    low = ((_EVERY_LANE & 31) & keep | set_bits) ^ flip
    pattern: Places = (_EVERY_LANE & 32) + low
    return pattern

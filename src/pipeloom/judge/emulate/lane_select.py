"""DPP: which lane each lane reads, and which lanes are written.

Control values are those of the CDNA3 ISA, "DPP_CTRL". A lane whose source does not exist or is
disabled by EXEC reads zero when bound_ctrl is set, and is not written otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from pipeloom.array_kinds import Flags, Places, Words
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.operands import unsupported
from pipeloom.judge.emulate.register_numbers import LANES, VGPR
from pipeloom.judge.emulate.screening import check_in_flight, check_poison, settle_writes
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.wave import NEVER_WRITTEN, Wave, lanes_of, mask_of

_LANE = np.arange(LANES)
_NOWHERE = LANES


@lru_cache(maxsize=256)
def _lane_table(control: int) -> Places | None:
    """Source lane per lane, 64 for none; None for a control that is not modelled."""
    row, place = _LANE & ~15, _LANE & 15
    if control < 0x100:
        quad = np.array([control >> (2 * (i & 3)) & 3 for i in range(LANES)], np.int64)
        shuffled: Places = (_LANE & ~3) + quad
        return shuffled
    amount = control & 15
    if 0x101 <= control <= 0x10F:
        moved = place + amount
        return np.where(moved > 15, _NOWHERE, row + moved)
    if 0x111 <= control <= 0x11F:
        moved = place - amount
        return np.where(moved < 0, _NOWHERE, row + moved)
    if 0x121 <= control <= 0x12F:
        return row + (place - amount) % 16
    if control == 0x130:
        return np.where(_LANE == 63, _NOWHERE, _LANE + 1)
    if control == 0x134:
        return (_LANE + 1) % 64
    if control == 0x138:
        return np.where(_LANE == 0, _NOWHERE, _LANE - 1)
    if control == 0x13C:
        return (_LANE - 1) % 64
    if control == 0x140:
        return row + 15 - place
    if control == 0x141:
        return (_LANE & ~7) + 7 - (_LANE & 7)
    if control == 0x142:
        return np.where(row == 0, _NOWHERE, row - 1)
    if control == 0x143:
        return np.where(_LANE < 32, _NOWHERE, 31)
    if 0x150 <= control <= 0x15F:
        return row + amount
    return None


class DppSelection:
    """Lane movement of one DPP instruction."""

    def __init__(self, table: Places, allowed: Flags, zero_missing: bool) -> None:
        self.table = np.where(table == _NOWHERE, 0, table)
        self.exists: Flags = table != _NOWHERE
        self.allowed = allowed
        self.zero_missing = zero_missing
        self.leaves_lanes = not allowed.all() or not (zero_missing or self.exists.all())
        """Whether some are not written although all lanes are on."""

    def valid(self, wave: Wave) -> Flags:
        """Lanes whose source lane exists and is enabled."""
        found: Flags = self.exists & wave.active[self.table]
        return found

    def gather(self, wave: Wave, words: Words) -> Words:
        """The source as each lane sees it; zero where there is none."""
        return np.where(self.valid(wave), words[self.table], np.uint32(0))

    def written(self, wave: Wave) -> Flags:
        """Lanes that the instruction writes."""
        lanes: Flags = wave.active & self.allowed
        if not self.zero_missing:
            lanes = lanes & self.valid(wave)
        return lanes

    def screen(self, source: int, *, copies: bool) -> Callable[[Wave, MicroOp], None]:
        """Screening that looks at the lanes really read."""

        def screen(wave: Wave, step: MicroOp) -> None:
            seen = self.written(wave) & self.valid(wave)
            lanes = mask_of(np.isin(_LANE, self.table[seen]))
            check_in_flight(wave, step, source, lanes)
            poisoned = wave.poison.get(source, 0) & lanes
            carried, cause = 0, wave.poison_cause.get(source, NEVER_WRITTEN)
            if poisoned and copies:
                carried = mask_of(seen & lanes_of(poisoned)[self.table])
            elif poisoned:
                check_poison(wave, step, source, lanes)
            written = mask_of(self.written(wave))
            for register in step.read_list:
                if register != source:
                    used = written if register >= VGPR else 1
                    check_in_flight(wave, step, register, used)
                    check_poison(wave, step, register, used)
            target = step.write_list[0]
            old = wave.poison.get(target, 0)
            old_cause = wave.poison_cause.get(target, NEVER_WRITTEN)
            settle_writes(wave, step)
            left = old & ~written | carried
            wave.set_poison(target, left, cause if carried else old_cause)

        return screen


@lru_cache(maxsize=1024)
def _selection(control: int, row_mask: int, bank_mask: int, zero: bool) -> DppSelection | None:
    table = _lane_table(control)
    if table is None:
        return None
    allowed = (row_mask >> (_LANE >> 4) & 1 == 1) & (bank_mask >> (_LANE >> 2 & 3) & 1 == 1)
    return DppSelection(table, allowed, zero)


def dpp_selection(instruction: Decoded) -> DppSelection:
    """The lane movement of a DPP instruction."""
    fields = instruction.fields
    selection = _selection(
        fields["dpp"], fields["row_mask"], fields["bank_mask"], bool(fields["bc"])
    )
    if selection is None:
        raise unsupported(instruction, f"dpp_ctrl {fields['dpp']:#x}")
    return selection

"""Scratch: the private memory of each lane, where compilers spill.

Poison goes in and out with the data, since a compiler may spill a value that is partly undefined.
Counts in vmcnt, in order, so a reload after a spill needs no wait between them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.addressing import OFF, Transfer
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.global_memory import LaneList
from pipeloom.judge.emulate.observed import DefectKind
from pipeloom.judge.emulate.operands import data_row
from pipeloom.judge.emulate.pending import Pending, WaitQueue
from pipeloom.judge.emulate.register_numbers import VGPR, each_register, register_bits
from pipeloom.judge.emulate.scalar_ops import signed
from pipeloom.judge.emulate.screening import check_in_flight, check_sources, screen_load
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.wave import Wave, lanes_of


def build_scratch(instruction: Decoded, transfer: Transfer, is_store: bool) -> MicroOp:
    """The step of a scratch load or store."""
    fields = instruction.fields
    words = transfer.words
    offset = signed(fields["offset"], 13)
    vector = fields["addr"] if fields["sve"] else None
    scalar = fields["saddr"] if fields["saddr"] != OFF else None
    row = data_row(instruction, "data" if is_store else "vdst")
    data_bits = register_bits(VGPR + row, words)
    address_bits = 0
    if vector is not None:
        address_bits |= 1 << (VGPR + vector)
    if scalar is not None:
        address_bits |= 1 << scalar

    def slots(wave: Wave, lanes: LaneList) -> npt.NDArray[np.int64] | None:
        place = np.full(lanes.size, offset, np.int64)
        if vector is not None:
            place += wave.v[vector, lanes].astype(np.int64)
        if scalar is not None:
            place += wave.s[scalar]
        limit = 4 * (wave.scratch.shape[0] - words)
        bad = (place < 0) | (place > limit) | (place & 3 != 0)
        if bad.any():
            wave.group.report(
                DefectKind.OUT_OF_BOUNDS,
                wave,
                instruction,
                f"scratch address {int(place[bad][0])}; the wave has "
                f"{4 * wave.scratch.shape[0]} bytes per lane",
            )
            return None
        return place >> 2

    def run_store(wave: Wave) -> None:
        lanes = wave.lane_numbers()
        where = slots(wave, lanes)
        data = wave.v[row : row + words, lanes].copy()
        poison = [wave.poison.get(VGPR + row + i, 0) for i in range(words)]

        def land() -> None:
            if where is None:
                return
            for i in range(words):
                wave.scratch[where + i, lanes] = data[i]
                wave.scratch_poison[where + i, lanes] = lanes_of(poison[i])[lanes]

        wave.group.issue(wave, Pending(instruction, WaitQueue.VM, land))

    def run_load(wave: Wave) -> None:
        lanes = wave.lane_numbers()
        where = slots(wave, lanes)

        def land() -> None:
            if where is None:
                return
            for i in range(words):
                wave.v[row + i, lanes] = wave.scratch[where + i, lanes]
                bad = wave.scratch_poison[where + i, lanes]
                if bad.any():
                    wave.taint(row + i, 1, lanes[bad])

        wave.group.issue(wave, Pending(instruction, WaitQueue.VM, land, data_bits, wave.exec_mask))

    def screen_store(wave: Wave, step: MicroOp) -> None:
        check_sources(wave, step, each_register(address_bits & wave.dirty))
        for register in each_register(data_bits & wave.in_flight):
            check_in_flight(wave, step, register, wave.exec_mask)

    if is_store:
        return MicroOp(instruction, run_store, address_bits | data_bits, 0, screen_store)
    return MicroOp(instruction, run_load, address_bits, data_bits, screen_load(WaitQueue.VM))

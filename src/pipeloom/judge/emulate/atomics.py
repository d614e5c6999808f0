"""Atomic read-modify-write on buffer, global and flat memory, of 32 or 64 bits.

With sc0 the old value returns to a register, like a load. Compare-and-swap takes its new value
from the first data register (pair) and the value to compare with from the next.
"""

from __future__ import annotations

import numpy as np

from pipeloom.array_kinds import Indices, Words
from pipeloom.judge.emulate.addressing import Transfer, buffer_address, global_address, reach
from pipeloom.judge.emulate.atomic_ops import Combine, atomic_operation
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.global_memory import Extent
from pipeloom.judge.emulate.observe import Effect
from pipeloom.judge.emulate.operands import data_row, unsupported
from pipeloom.judge.emulate.pending import Pending, WaitQueue
from pipeloom.judge.emulate.register_numbers import VGPR, each_register, register_bits
from pipeloom.judge.emulate.screening import (
    check_in_flight,
    check_poison,
    check_sources,
    settle_writes,
)
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.wave import Wave, lanes_to_mask


def build_atomic(instruction: Decoded) -> MicroOp:
    """The step of a buffer, global or flat atomic."""
    space, _, kind = instruction.name.split("_", 2)
    bits = 64 if kind.endswith(("_x2", "_f64")) else 32
    kind = kind.removesuffix("_x2")
    operation = atomic_operation(kind, bits)
    if operation is None:
        raise unsupported(instruction)
    combine, words = operation, bits // 32
    size = 4 * words
    if space == "buffer":
        locate, reads = buffer_address(instruction, Transfer(size))
        data = target = data_row(instruction, "vdata")
    else:
        locate, reads = global_address(instruction)
        data, target = data_row(instruction, "data"), data_row(instruction, "vdst")
    compares = kind == "cmpswap"
    returns = bool(instruction.fields["sc0"])
    written = register_bits(VGPR + target, words) if returns else 0

    def run(wave: Wave) -> None:
        group = wave.group
        place = locate(wave)
        values = _rows(wave, data, words, place.lanes)
        others = _rows(wave, data + words, words, place.lanes) if compares else [0] * len(values)
        extents = reach(wave, instruction, place.base, place.spread, size, "updates")
        old = np.zeros((place.lanes.size, words), np.uint32)

        def land() -> None:
            for extent in extents:
                _apply(extent, values, others, combine, old)
            if returns:
                for i in range(words):
                    wave.v[target + i, place.active] = 0
                    wave.v[target + i, place.lanes] = old[:, i]

        lanes = wave.exec_mask if returns else 0
        touches = place.touches(wave, Effect.UPDATE, size)
        group.issue(wave, Pending(instruction, WaitQueue.VM, land, written, lanes, touches=touches))

    data_bits = register_bits(VGPR + data, words * (2 if compares else 1))

    def screen(wave: Wave, step: MicroOp) -> None:
        check_sources(wave, step, each_register(reads & wave.dirty))
        for register in each_register(data_bits & wave.dirty):
            check_in_flight(wave, step, register, wave.exec_mask)
            if wave.poison.get(register, 0) & wave.exec_mask:
                check_poison(wave, step, register, lanes_to_mask(locate(wave).lanes))
        settle_writes(wave, step, loading=WaitQueue.VM)

    return MicroOp(instruction, run, reads | data_bits, written, screen)


def _rows(wave: Wave, row: int, words: int, lanes: Indices) -> list[int]:
    values: list[int] = wave.v[row, lanes].tolist()
    if words == 2:
        upper: list[int] = wave.v[row + 1, lanes].tolist()
        values = [low | high << 32 for low, high in zip(values, upper, strict=True)]
    return values


def _apply(
    extent: Extent,
    values: list[int],
    others: list[int],
    combine: Combine,
    old: Words,
) -> None:
    words, wide = extent.buffer.words, old.shape[1] == 2
    for lane, offset in zip(extent.where.tolist(), extent.offsets.tolist(), strict=True):
        at = offset >> 2
        before = int(words[at]) | (int(words[at + 1]) << 32 if wide else 0)
        after = combine(before, values[lane], others[lane])
        old[lane, 0] = before & 0xFFFFFFFF
        words[at] = after & 0xFFFFFFFF
        if wide:
            old[lane, 1] = before >> 32
            words[at + 1] = after >> 32

"""Atomic read-modify-write on buffer and global memory.

Lanes are applied one after the other in lane order when the operation lands; hardware promises
only that each is indivisible. With sc0 the old value returns to a register, like a load.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pipeloom.emulate.addressing import Transfer, buffer_address, global_address
from pipeloom.emulate.decode import Instruction
from pipeloom.emulate.findings import FindingKind
from pipeloom.emulate.formats import bf16_to_f32, f32_to_bf16
from pipeloom.emulate.memory import Extent
from pipeloom.emulate.operands import unsupported
from pipeloom.emulate.pending import Counter, Pending
from pipeloom.emulate.registers import AGPR, VGPR, WORD
from pipeloom.emulate.salu import signed
from pipeloom.emulate.screening import screen_load
from pipeloom.emulate.step import Step
from pipeloom.emulate.wave import Wave


def _add_f32(old: int, new: int) -> int:
    pair = np.array([old, new], np.uint32).view(np.float32)
    return int((pair[:1] + pair[1:]).view(np.uint32)[0])


def _add_halves(old: int, new: int) -> int:
    a, b = (np.array([x], np.uint32).view(np.float16) for x in (old, new))
    return int((a + b).view(np.uint32)[0])


def _add_bf16(old: int, new: int) -> int:
    a, b = (bf16_to_f32(np.array([x], np.uint32).view(np.uint16)) for x in (old, new))
    return int(f32_to_bf16(a + b).view(np.uint32)[0])


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "swap": lambda old, new: new,
    "add": lambda old, new: old + new & WORD,
    "sub": lambda old, new: old - new & WORD,
    "smin": lambda old, new: old if signed(old) <= signed(new) else new,
    "umin": min,
    "smax": lambda old, new: old if signed(old) >= signed(new) else new,
    "umax": max,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "add_f32": _add_f32,
    "pk_add_f16": _add_halves,
    "pk_add_bf16": _add_bf16,
}


def build_atomic(instruction: Instruction) -> Step:
    """The step of a 32-bit buffer or global atomic."""
    fields = instruction.fields
    space, _, kind = instruction.name.split("_", 2)
    if kind not in _OPERATIONS:
        raise unsupported(instruction)
    combine = _OPERATIONS[kind]
    if space == "buffer":
        locate, reads = buffer_address(instruction, Transfer(4))
        data = target = fields["vdata"]
    else:
        locate, reads = global_address(instruction)
        data, target = fields["data"], fields["vdst"]
    shift = AGPR - VGPR if fields["acc"] else 0
    data, target = data + shift, target + shift
    returns = bool(fields["sc0"])
    written = 1 << (VGPR + target) if returns else 0

    def run(wave: Wave) -> None:
        group = wave.group
        place = locate(wave)
        values = wave.v[data, place.lanes].tolist()
        extents, outside = group.memory.split(place.addresses, 4)
        if outside.size:
            where = group.memory.describe(int(outside[0]))
            message = f"updates 4 bytes at {where} in {outside.size} lanes"
            group.report(FindingKind.OUT_OF_BOUNDS, wave, instruction, message)
        old = np.zeros(place.lanes.size, np.uint32)

        def land() -> None:
            for extent in extents:
                _apply(extent, values, combine, old)
            if returns:
                wave.v[target, place.active] = 0
                wave.v[target, place.lanes] = old

        lanes = wave.exec_mask if returns else 0
        group.issue(wave, Pending(instruction, Counter.VM, land, written, lanes))

    return Step(instruction, run, reads | 1 << (VGPR + data), written, screen_load(Counter.VM))


def _apply(
    extent: Extent,
    values: list[int],
    combine: Callable[[int, int], int],
    old: npt.NDArray[np.uint32],
) -> None:
    words = extent.buffer.words
    for lane, offset in zip(extent.where.tolist(), extent.offsets.tolist(), strict=True):
        before = int(words[offset >> 2])
        old[lane] = before
        words[offset >> 2] = combine(before, values[lane])

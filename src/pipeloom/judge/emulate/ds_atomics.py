"""Atomics on LDS. They count in lgkmcnt like a read, and never race with each other.

    ds_add_u32 v0, v1                  LDS[v0] += v1
    ds_cmpst_rtn_b32 v2, v0, v1, v3    v2 = LDS[v0]; if it equals v1, LDS[v0] = v3

A cell that was never written stays poison, whatever is added to it; a swap makes it clean.
"""

from __future__ import annotations

import re

import numpy as np

from pipeloom.judge.emulate.atomic_ops import Combine, atomic_operation
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.ds import (
    UNWRITTEN_LDS,
    addressed,
    lds_touches,
    race_cause,
    report_race,
)
from pipeloom.judge.emulate.observe import Effect
from pipeloom.judge.emulate.operands import data_row, unsupported
from pipeloom.judge.emulate.pending import Pending, WaitQueue
from pipeloom.judge.emulate.register_numbers import VGPR, register_bits
from pipeloom.judge.emulate.screening import screen_load
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.wave import Wave

_NAME = re.compile(
    r"ds_(add|sub|rsub|inc|dec|min|max|and|or|xor|mskor|cmpst|wrxchg|pk_add)(_rtn)?"
    r"_(u32|i32|b32|f32|u64|i64|b64|f64|f16|bf16)$"
)
_SIGNS = {"i": "s", "u": "u"}


def _operation(verb: str, kind: str, bits: int) -> Combine | None:
    verb = {"wrxchg": "swap", "cmpst": "cmpswap"}.get(verb, verb)
    if verb == "pk_add" or kind in ("f32", "f64"):
        return atomic_operation(f"{verb}_{kind}", bits)
    if verb in ("min", "max"):
        verb = _SIGNS.get(kind[0], "") + verb
    return atomic_operation(verb, bits)


def build(instruction: Decoded) -> MicroOp | None:
    """The step of an LDS atomic, or None."""
    match = _NAME.match(instruction.name)
    if match is None:
        return None
    verb, returns, kind = match[1], bool(match[2]), match[3]
    bits = 64 if kind.endswith("64") else 32
    operation = _operation(verb, kind, bits)
    if operation is None or instruction.fields["gds"]:
        raise unsupported(instruction)
    combine, words = operation, bits // 32
    size = 4 * words
    fields = instruction.fields
    offset = fields["offset0"] | fields["offset1"] << 8
    first, target = data_row(instruction, "data0"), data_row(instruction, "vdst")
    compares = verb in ("cmpst", "mskor")
    new = data_row(instruction, "data1") if compares else first
    address_row = fields["addr"]
    written = register_bits(VGPR + target, words) if returns else 0
    overwrites = verb == "wrxchg"

    def run(wave: Wave) -> None:
        group = wave.group
        lds = group.lds
        number = lds.begin(wave.index, WaitQueue.LGKM, instruction, writes=True)
        piece = addressed(wave, instruction, address_row, offset, size, "updates")
        lanes = piece.lanes
        racing = lds.record_atomic(number, wave.barriers, piece)
        if racing:
            report_race(wave, instruction, racing)
        data = wave.v[new : new + words, lanes].T.copy().view(f"u{size}")[:, 0].tolist()
        wanted = [0] * len(data)
        if compares:
            wanted = wave.v[first : first + words, lanes].T.copy().view(f"u{size}")[:, 0].tolist()
        cause = race_cause(wave, racing) if racing else ""

        def land() -> None:
            cells = lds.octets
            old = np.zeros(lanes.size, f"u{size}")
            for i, at in enumerate(piece.addresses.tolist()):
                before = int.from_bytes(cells[at : at + size].tobytes(), "little")
                after = combine(before, data[i], wanted[i])
                old[i] = before
                cells[at : at + size] = np.frombuffer(after.to_bytes(size, "little"), np.uint8)
            bad = lds.poisoned[piece.granules].any(axis=1)
            if overwrites:
                lds.settle(piece, None)
            if not returns:
                return
            parts = old.view(np.uint32).reshape(-1, words)
            wave.v[target : target + words, lanes] = parts.T
            if bad.any():
                wave.taint(target, words, lanes[bad], UNWRITTEN_LDS)
            if cause:
                wave.taint(target, words, lanes, cause)

        mask = wave.exec_mask if returns else 0
        touches = lds_touches(wave, Effect.UPDATE, [(piece, None)])
        group.issue(
            wave, Pending(instruction, WaitQueue.LGKM, land, written, mask, number, touches)
        )

    reads = 1 << (VGPR + address_row) | register_bits(VGPR + first, words)
    reads |= register_bits(VGPR + new, words)
    return MicroOp(instruction, run, reads, written, screen_load(WaitQueue.LGKM))

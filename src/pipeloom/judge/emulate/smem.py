"""Scalar memory (SMEM): loads, stores and atomics of one wave, and the clock.

All count in lgkmcnt and return in any order, so that only lgkmcnt(0) covers one. Store data and
addresses are taken at issue. The scalar cache is not modelled: a store is in memory once it lands.

Sources: CDNA3 ISA, "Scalar Memory Operations"; stores and atomics, which that text leaves out but
LLVM assembles for gfx942 and gfx950, as in the Vega ISA, "S_STORE_DWORD" and "S_ATOMIC_*".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipeloom.judge.emulate.addressing import reach
from pipeloom.judge.emulate.atomics import atomic_operation
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.global_memory import Extent, Spread, load_words, store_words
from pipeloom.judge.emulate.observe import AddressSpace, Effect, LaneAccess
from pipeloom.judge.emulate.operands import ReadOperand, scalar_source, unsupported
from pipeloom.judge.emulate.pending import Pending, WaitQueue
from pipeloom.judge.emulate.register_numbers import EXEC, register_bits
from pipeloom.judge.emulate.scalar_ops import signed
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.wave import Wave

_FIRST_LANE = np.zeros(1, np.intp)
_WORDS = {"dword": 1, "dwordx2": 2, "dwordx4": 4, "dwordx8": 8, "dwordx16": 16}
_IGNORED = frozenset({"s_dcache_inv", "s_dcache_wb", "s_dcache_inv_vol", "s_dcache_wb_vol"})
_BASE_MASK = (1 << 48) - 1


class _Dwords(NamedTuple):
    """Where an access starts, and how many of its dwords the descriptor keeps."""

    address: int
    kept: int


_Locate = Callable[[Wave], _Dwords]


def build(instruction: Decoded) -> MicroOp | None:
    """The step of a scalar memory instruction, or None."""
    if instruction.encoding != "SMEM":
        return None
    name = instruction.name
    if name in _IGNORED:
        return MicroOp(instruction, lambda wave: None)
    if name in ("s_memtime", "s_memrealtime"):
        return _clock(instruction)
    verb, _, kind = name.removeprefix("s_").removeprefix("buffer_").partition("_")
    buffered = name.startswith("s_buffer_")
    if verb in ("load", "store") and kind in _WORDS:
        words = _WORDS[kind]
        locate, reads = _locate(instruction, buffered, words)
        if verb == "load":
            return _load(instruction, locate, reads, words)
        return _store(instruction, locate, reads, words)
    if verb == "atomic":
        return _atomic(instruction, kind, buffered)
    raise unsupported(instruction)


def _locate(instruction: Decoded, buffered: bool, words: int) -> tuple[_Locate, int]:
    """Base plus offset, or a descriptor's base with its range; and the registers read."""
    fields = instruction.fields
    base = fields["sbase"]
    read_base = scalar_source(base, 2, instruction).read
    offset = signed(fields["offset"], 21) if fields["imm"] else 0
    more = ReadOperand(lambda wave: 0, 0)
    if fields["soffset_en"]:
        more = scalar_source(fields["soffset"], 1, instruction)
    elif not fields["imm"]:
        more = scalar_source(fields["offset"] & 0x7F, 1, instruction)

    def locate(wave: Wave) -> _Dwords:
        moved = offset + more.read(wave)
        if not buffered:
            return _Dwords(signed(read_base(wave) + moved & 0xFFFFFFFFFFFFFFFC, 64), words)
        moved &= ~3
        stride = wave.s[base + 1] >> 16 & 0x3FFF
        size = wave.s[base + 2] * (stride or 1)
        return _Dwords(
            (read_base(wave) & _BASE_MASK) + moved, min(max(size - moved, 0) // 4, words)
        )

    return locate, register_bits(base, 4 if buffered else 2) | more.registers


def _reach(
    wave: Wave, instruction: Decoded, place: _Dwords, effect: Effect
) -> tuple[list[Extent], tuple[LaneAccess, ...]]:
    """The buffer that holds these bytes, a finding where none does; and what is touched."""
    addresses, size = np.array([place.address], np.int64), 4 * place.kept
    extents = reach(wave, instruction, 0, Spread(addresses), size, effect.value)
    return extents, (LaneAccess(AddressSpace.GLOBAL, effect, _FIRST_LANE, addresses, size),)


def _check_target(instruction: Decoded, target: int) -> None:
    if target in (EXEC, EXEC + 1):
        raise unsupported(instruction, "scalar memory into exec")


def _load(instruction: Decoded, locate: _Locate, reads: int, words: int) -> MicroOp:
    target = instruction.fields["sdata"]
    _check_target(instruction, target)
    written = register_bits(target, words)

    def run(wave: Wave) -> None:
        place = locate(wave)
        kept = place.kept
        touches: tuple[LaneAccess, ...] = ()
        if kept:
            extents, touches = _reach(wave, instruction, place, Effect.READ)

        def land() -> None:
            data = load_words(extents, 1, kept)[0].tolist() if kept else []
            wave.s[target : target + words] = data + [0] * (words - kept)

        wave.group.issue(
            wave, Pending(instruction, WaitQueue.SMEM, land, written, 1, touches=touches)
        )

    return MicroOp(instruction, run, reads, written)


def _store(instruction: Decoded, locate: _Locate, reads: int, words: int) -> MicroOp:
    source = instruction.fields["sdata"]

    def run(wave: Wave) -> None:
        place = locate(wave)
        kept = place.kept
        if not kept:
            wave.group.issue(wave, Pending(instruction, WaitQueue.SMEM, lambda: None))
            return
        data = np.array([wave.s[source : source + kept]], np.uint32)
        extents, touches = _reach(wave, instruction, place, Effect.WRITE)
        wave.group.issue(
            wave,
            Pending(
                instruction, WaitQueue.SMEM, lambda: store_words(extents, data), touches=touches
            ),
        )

    return MicroOp(instruction, run, reads | register_bits(source, words))


def _atomic(instruction: Decoded, kind: str, buffered: bool) -> MicroOp:
    """One read-modify-write; with glc the old value comes back into the data registers."""
    words = 2 if kind.endswith("_x2") else 1
    kind = kind.removesuffix("_x2")
    operation = atomic_operation(kind, 32 * words)
    if operation is None:
        raise unsupported(instruction)
    combine = operation
    locate, reads = _locate(instruction, buffered, words)
    data = instruction.fields["sdata"]
    _check_target(instruction, data)
    compares = kind == "cmpswap"
    returns = bool(instruction.fields["glc"])
    written = register_bits(data, words) if returns else 0
    given = register_bits(data, words * (2 if compares else 1))

    def run(wave: Wave) -> None:
        place = locate(wave)
        new = _number(wave.s[data : data + words])
        other = _number(wave.s[data + words : data + 2 * words]) if compares else 0
        touches: tuple[LaneAccess, ...] = ()
        extents: list[Extent] = []
        if place.kept == words:
            extents, touches = _reach(wave, instruction, place, Effect.UPDATE)

        def land() -> None:
            old = 0
            if extents:
                old = _number(load_words(extents, 1, words)[0].tolist())
                store_words(extents, np.array([_split(combine(old, new, other), words)], np.uint32))
            if returns:
                wave.s[data : data + words] = _split(old, words)

        lanes = 1 if returns else 0
        wave.group.issue(
            wave, Pending(instruction, WaitQueue.SMEM, land, written, lanes, touches=touches)
        )

    return MicroOp(instruction, run, reads | given, written)


def _number(words: list[int]) -> int:
    return sum(word << 32 * at for at, word in enumerate(words))


def _split(value: int, words: int) -> list[int]:
    return [value >> 32 * at & 0xFFFFFFFF for at in range(words)]


def _clock(instruction: Decoded) -> MicroOp:
    """s_memtime: instructions issued by the workgroup, which at least grows."""
    target = instruction.fields["sdata"]
    written = register_bits(target, 2)

    def run(wave: Wave) -> None:
        now = wave.group.clock

        def land() -> None:
            wave.s[target : target + 2] = _split(now, 2)

        wave.group.issue(wave, Pending(instruction, WaitQueue.SMEM, land, written, 1))

    return MicroOp(instruction, run, 0, written)

"""What every instruction says of its registers, against what it does to them.

Each form that the decoder has and the emulator knows is executed twice. What it says it reads is
the same both times, all else differs. So what it overwrites must come out the same, what it keeps
may differ where it is as it was, and nothing else may change. Lanes that are off differ, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeloom.judge.emulate.addressing import OFF
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.executable import build_step
from pipeloom.judge.emulate.global_memory import GlobalMemory
from pipeloom.judge.emulate.lds_shadow import LocalMemory
from pipeloom.judge.emulate.matrix_batch import carry_out
from pipeloom.judge.emulate.pending import Timing
from pipeloom.judge.emulate.register_numbers import (
    ALL_LANES,
    EXEC,
    LANES,
    M0,
    SCC,
    VGPR,
    WORD,
    each_register,
    register_bits,
    register_name,
)
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.traps import UnsupportedInstructionError
from pipeloom.judge.emulate.wave import Wave, WaveState, lanes_of
from pipeloom.judge.emulate.workgroup import DefectLog, Workgroup

Words = npt.NDArray[np.uint32]
ARCH = "gfx950"
SOME_LANES = 0x0F0F_3C5A_FFFF_0081
DESCRIPTOR, PAIR, NUMBER, MASK, DATA, RESULT = 12, 16, 24, 28, 32, 64
"""Scalar registers."""
OFFSET, ADDRESS = 170, 172
"""Vector registers."""
FIELDS = {
    "vdst": 96, "src0": VGPR, "src1": VGPR + 32, "src2": VGPR + 64, "vsrc0": 0, "vsrc1": 32,
    "sdst": RESULT, "ssrc0": NUMBER, "ssrc1": MASK, "sdata": DATA, "sbase": DESCRIPTOR,
    "data": 128, "data0": 128, "data1": 136, "vdata": 128, "srsrc": DESCRIPTOR,
    "addr": OFFSET, "vaddr": OFFSET, "saddr": PAIR, "soffset": 128, "imm": 1, "literal": 77,
    "scale_src0": VGPR + 140, "scale_src1": VGPR + 144, "src0_sel": 6, "src1_sel": 6,
    "dst_sel": 6, "row_mask": 15, "bank_mask": 15, "dpp": 0xE4, "opsel_hi": 3,
}  # fmt: skip
PADS = [{"dst_sel": byte, "dst_unused": unused} for byte, unused in ((6, 2), (5, 1), (1, 2))]
LANES_MOVED = [
    {"dpp": 0xE4},
    {"dpp": 0x111},
    {"dpp": 0x111, "bc": 1},
    {"dpp": 0x101, "bc": 1, "row_mask": 5},
]
VARIANTS: Mapping[str, list[dict[str, int]]] = {
    "VOP3": [
        {},
        {"src0": NUMBER, "src1": MASK, "opsel": 8},
        {"src1": MASK, "opsel": 12},
        {"src2": MASK},
    ],
    "VOP3_SDST": [{}, {"src2": MASK}],
    "VOP3SD": [{}, {"src2": MASK}],
    "VOP3P": [{}, {"opsel": 5}],
    "VOP1_SDWA": PADS,
    "VOP2_SDWA": PADS,
    "VOP1_DPP16": LANES_MOVED,
    "VOP2_DPP16": LANES_MOVED,
    "GLOBAL": [{}, {"sc0": 1, "saddr": OFF, "addr": ADDRESS}],
    "MUBUF": [{"offen": 1}, {"offen": 1, "sc0": 1}, {"lds": 1}],
    "SMEM": [{}, {"glc": 1}],
    "FLAT": [{"addr": ADDRESS}, {"addr": ADDRESS, "sc0": 1}],
    "SCRATCH": [{"saddr": OFF}],
    "SOPK": [{"simm16": 1}, {"simm16": 0x8001}],
}
"""What stands in the fields of a form, one row for each time that it is tried."""


def forms() -> Iterator[Decoded]:
    """One or more of every opcode of every encoding that the decoder has."""
    from tinygrad.renderer.amd import _load_formats

    for form in _load_formats()["cdna"]:
        names = dict(form._fields)
        opcodes = names["op"]
        encoding, _, variant = form.__name__.partition("_")
        choices = VARIANTS.get(form.__name__, [{}])
        for opcode in sorted(opcodes.allowed, key=lambda one: int(one.value)):
            name = opcode.name.lower().removesuffix("_e32").removesuffix("_e64")
            name = {"v_accvgpr_read": "v_accvgpr_read_b32"}.get(name, name)
            name = {"v_accvgpr_write": "v_accvgpr_write_b32"}.get(name, name)
            for choice in choices:
                given = {**FIELDS, **choice}
                fields = {field: given.get(field, 0) for field in names}
                if "_co_" in name and fields.get("src2", 0) >= VGPR:
                    continue  # a carry is no vector
                if "swap_b32" in name and fields.get("src0", VGPR) < VGPR:
                    continue
                yield Decoded(0, 8, name, encoding, variant, fields)


def steps() -> Iterator[MicroOp]:
    for one in forms():
        try:
            yield build_step(one, ARCH, {4: 0})
        except UnsupportedInstructionError:
            continue


@dataclass
class State:
    """What a wave may hold."""

    vectors: Words
    scalars: list[int]
    scc: int
    lanes: int = ALL_LANES


class Trial:
    """A wave in a workgroup with memory that its addresses lie in."""

    def __init__(self) -> None:
        random = np.random.default_rng(7)
        self.content = random.integers(0, 256, 8192, np.uint8)
        memory = GlobalMemory()
        self.buffer = memory.allocate("x", self.content)
        self.lds = LocalMemory(self.content.size, 1, 4, check_races=False)
        more: Any = (0, Timing.EARLY, 1 << 30, False)
        log = DefectLog({}, 1 << 30)
        group = Workgroup([], memory, self.lds, log, (0, 0, 0), *more)
        self.wave = Wave(group, 0, 16)
        low, high = self.buffer.base & WORD, self.buffer.base >> 32
        self.states = []
        for scc in (0, 1):
            vectors = random.integers(0, 2**32, (512, LANES), np.uint32)
            scalars = random.integers(0, 2**32, 128).tolist()
            vectors[OFFSET] = np.arange(LANES) * 64
            vectors[ADDRESS], vectors[ADDRESS + 1] = vectors[OFFSET] + np.uint32(low), high
            scalars[PAIR : PAIR + 2] = low, high
            scalars[DESCRIPTOR : DESCRIPTOR + 4] = low, high, self.content.size, 0x27000
            scalars[NUMBER] = scalars[MASK] = 64 * scc + 9  # a lane that is off
            scalars[M0] = 64 | scc << 20
            self.states.append(State(vectors, scalars, scc))

    def _set(self, state: State, registers: int, of: State, lanes: npt.NDArray[np.bool_]) -> None:
        """The wave holds a state, but for registers of another: of a vector, these lanes."""
        wave = self.wave
        np.copyto(wave.v, state.vectors)
        wave.s[:] = state.scalars
        wave.scc = of.scc if registers >> SCC & 1 else state.scc
        for register in each_register(registers & ~(1 << SCC)):
            if register >= VGPR:
                row = register - VGPR
                np.copyto(wave.v[row], of.vectors[row], where=lanes)
            else:
                wave.s[register] = of.scalars[register]
        wave.set_exec(of.lanes if registers >> EXEC & 1 else state.lanes)

    def _held(self, register: int) -> Words:
        wave = self.wave
        if register >= VGPR:
            lanes: Words = wave.v[register - VGPR].copy()
            return lanes
        return np.array([wave.scc if register == SCC else wave.s[register]], np.uint32)

    def _run(self, step: MicroOp) -> tuple[int, dict[int, tuple[Words, Words]], object]:
        """Which registers change, what was and is in those written, and all else there is."""
        wave = self.wave
        wave.next, wave.state = -1, WaveState.RUNNING
        self.buffer.octets[:] = self.lds.octets[:] = self.content
        wave.scratch[:] = 5
        vectors, scalars = wave.v.copy(), [*wave.s, wave.scc]
        before = [self._held(register) for register in step.write_list]
        step.run(wave)
        if wave.products:
            carry_out(wave)
        for queue in wave.queues.values():
            queue.clear()
        changed = 0
        for row in np.flatnonzero((wave.v != vectors).any(axis=1)).tolist():
            changed |= 1 << VGPR + row
        now = [*wave.s, wave.scc]
        for at in [] if now == scalars else range(129):
            changed |= (now[at] != scalars[at]) << (at if at < 128 else SCC)
        after = [self._held(register) for register in step.write_list]
        pairs = dict(zip(step.write_list, zip(before, after, strict=True), strict=True))
        memory = [one.tobytes() for one in (self.buffer.octets, self.lds.octets, wave.scratch)]
        return changed, pairs, (memory, wave.next, wave.state)

    def judge(self, step: MicroOp, lanes: int, scc: int) -> tuple[str, int]:
        """What a step says of itself and is not so; and the registers that it left part of."""
        first, second = self.states[scc], self.states[1 - scc]
        first.lanes, second.lanes = lanes, ~lanes & ALL_LANES | 1
        on, known = lanes_of(lanes), step.reads
        if not step.instruction.encoding.startswith(("SOP", "SMEM")):
            known |= register_bits(EXEC, 2)
        read = on | step.whole_wave
        self._set(first, 0, first, read)
        changed, here, rest = self._run(step)
        self._set(second, known, first, read)
        also, there, other_rest = self._run(step)
        if rest != other_rest:
            return "memory or the way hang on what it does not read", 0
        more = each_register((changed | also) & ~step.writes)
        if more:
            return f"it writes {register_name(more[0])}", 0
        left = 0
        for register, (before, after) in here.items():
            other_before, other_after = there[register]
            moved = before ^ after | other_before ^ other_after
            differ = after ^ other_after
            if register >= VGPR and not step.whole_wave:
                if moved[~on].any():
                    return f"it writes lanes of {register_name(register)} that are off", 0
                differ = differ * on
            if (differ & moved).any():
                return f"{register_name(register)} hangs on what it does not read", 0
            left |= int(differ.any()) << register
        return "", left


def test_instructions_read_write_and_keep_what_they_say() -> None:
    trial = Trial()
    known: set[str] = set()
    wrong: dict[str, str] = {}
    for step in steps():
        one = step.instruction
        known.add(one.name)
        scalar = one.encoding.startswith("SOP")
        left = 0
        with np.errstate(all="ignore"):
            problem, left = trial.judge(step, ALL_LANES, 0)
            if scalar and not problem:
                problem, more = trial.judge(step, ALL_LANES, 1)
                left |= more
            elif not problem and "_tr_" not in one.name:
                problem, _ = trial.judge(step, SOME_LANES, 0)
        if not problem and left != step.keeps & ~step.reads:
            names = [register_name(register) for register in each_register(left)]
            problem = f"it leaves something of {names}"
        if problem:
            wrong[f"{one.name} ({one.encoding} {one.variant})"] = problem
    assert not wrong
    assert len(known) > 1000

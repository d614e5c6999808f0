"""A loop of ``simulate --stream`` as a kernel that times itself: what the model says of it, to run.

    made = stream_kernel("lds_read", "(R wl0)x8 S branch", GFX950, simds=1)
    made.text, made.timing                      # assembly, and the record that each wave stores
    made.record(trips=256)                      # how to launch it, with ``made.bytes(256)`` of data

The loop has the instructions of the stream, in its order, and no other: its last ``S`` is the
subtraction that counts. Instructions work on registers of their own, but for those that the stream
chains. Loads go on through memory from trip to trip, each from addresses of its own. The clocks are
those of ``emit --timed``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType
from typing import Any

from pipeloom.device.fixed_launches import FIXED
from pipeloom.errors import ConfigError
from pipeloom.judge.simulate.instruction import LOAD_KINDS, Kind, WaveOp
from pipeloom.judge.simulate.run_stream import waves_of_stream
from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.matrix_ops import MatrixOp
from pipeloom.machine.mnemonics import MNEMONICS
from pipeloom.machine.occupancy import Resources
from pipeloom.machine.target import Target
from pipeloom.write.addresses import RAW_BUFFER
from pipeloom.write.code import Code
from pipeloom.write.hazard_check import require_no_hazards
from pipeloom.write.hazards import insert_wait_states
from pipeloom.write.isa import (
    LDS_DMA_BY_BYTES,
    M0,
    Instruction,
    Label,
    Line,
    Opcode,
    Register,
    agpr,
    sgpr,
    vgpr,
)
from pipeloom.write.lower.wave_clocks import TimingRecord, WaveClocks
from pipeloom.write.text import Argument, kernel_text

DATA, LEFT = "data", "left"
ARGUMENTS = (Argument(DATA, 0, 8, True), Argument(LEFT, 8, 4, False))
ACCUMULATORS = 8
_KERNARG, _LEFT, _BUFFER, _WAVE, _SPARE = sgpr(0, 2), sgpr(20), sgpr(24, 4), sgpr(28), sgpr(29)
_SGPRS = 32
_LANE, _LDS, _PLACE = vgpr(1), vgpr(2), vgpr(3)
_A, _B = vgpr(4, 4), vgpr(8, 4)
_VALU, _PACKED, _TRANS, _CHAIN, _READ, _LOADED, _OFFSETS = 12, 16, 24, 28, 32, 64, 112
"""Where registers of each kind of instruction begin."""
_POOLS: Mapping[Kind, tuple[int, int, int]] = MappingProxyType(
    {
        Kind.VALU: (_VALU, 1, 4),
        Kind.PACKED: (_PACKED, 2, 4),
        Kind.TRANS: (_TRANS, 1, 4),
        Kind.LDS_READ: (_READ, 4, 8),
        Kind.GLOBAL_TO_VGPR: (_LOADED, 4, 12),
    }
)
"""First register of results, how many each takes, and how many results there are in turn."""
_WAVE_BYTES = 16 * WAVE_LANES
"""What a wave reads by its widest access."""


@dataclass(frozen=True, slots=True)
class StreamKernel:
    """The kernel of a stream."""

    name: str
    text: str
    target: str
    lines: tuple[Line, ...]
    waves: int
    arguments: tuple[Argument, ...]
    timing: TimingRecord
    step: int
    """Bytes that all waves load in a trip; 1 where they load nothing."""

    @property
    def loop(self) -> tuple[Instruction, ...]:
        """The instructions of a trip."""
        names = [str(one) for one in self.lines]
        head = next(at for at, one in enumerate(self.lines) if isinstance(one, Label))
        end = next(at for at in count(head) if "s_cbranch" in names[at])
        return tuple(one for one in self.lines[head : end + 1] if isinstance(one, Instruction))

    def bytes(self, trips: int) -> int:
        """Of the data that so many trips load."""
        return max(self.step * trips, 16)

    def record(self, trips: int) -> dict[str, Any]:
        """How to launch one workgroup: a record for ``PreparedKernel``."""
        timing = self.timing
        told = {LEFT: self.step * trips, timing.grid_x: 1, timing.grid_y: 1}
        sizes = {DATA: self.bytes(trips), timing.pointer: timing.bytes((1, 1, 1))}
        arguments: list[dict[str, Any]] = []
        for one in self.arguments:
            found: dict[str, Any] = {"name": one.name, "offset": one.offset, "size": one.size}
            if one.is_pointer:
                shape = [sizes[one.name] // 4]
                found |= {"kind": "pointer", "dtype": "u32", "bits": 32, "shape": shape}
            else:
                found |= {"kind": "value", "hex": told[one.name].to_bytes(4, "little").hex()}
            arguments.append(found)
        return {
            "format": FIXED,
            "kernel": self.name,
            "target": self.target,
            "verdict": None,
            "grid": [1, 1, 1],
            "block": [self.waves * WAVE_LANES, 1, 1],
            "dynamic_lds": 0,
            "arguments": arguments,
        }


def stream_kernel(
    name: str,
    stream: str,
    machine: Target,
    *,
    waves_per_simd: int = 1,
    simds: int | None = None,
) -> StreamKernel:
    """Write the loop of a stream, which ends in ``S branch``, as a kernel."""
    programs = waves_of_stream(stream, machine, waves_per_simd=waves_per_simd, simds=simds)
    loop = programs[0].loop
    if [one.kind for one in loop[-2:]] != [Kind.SALU, Kind.BRANCH]:
        raise ConfigError(
            f"the stream {stream!r} does not end in S branch",
            hint="a loop counts its trips: end it so",
            field="stream",
        )
    waves = len(programs)
    return _StreamWriter(name, machine, waves, loop).kernel()


class _StreamWriter:
    """One kernel, as it is written."""

    def __init__(self, name: str, machine: Target, waves: int, loop: tuple[WaveOp, ...]) -> None:
        self.name, self.machine, self.waves, self.loop = name, machine, waves, loop
        self.code = Code()
        self.loads = [one for one in loop if one.kind in LOAD_KINDS]
        matrix = next((one.matrix_op for one in loop if one.matrix_op is not None), None)
        self.result = 0 if matrix is None else matrix.m * matrix.n // WAVE_LANES
        self.resources = Resources(
            vgprs=_OFFSETS + len(self.loads),
            agprs=ACCUMULATORS * self.result,
            sgprs=_SGPRS,
            lds_bytes=2 * _WAVE_BYTES * waves,
            waves=waves,
            target=machine,
        )
        self.turns: dict[Kind, int] = {}
        self.loaded = 0

    @property
    def step(self) -> int:
        """Bytes of a trip."""
        return sum(one.bytes for one in self.loads) * self.waves or 1

    def kernel(self) -> StreamKernel:
        code, machine = self.code, self.machine
        clocks = WaveClocks(self.resources, ARGUMENTS, 2)
        clocks.begin(code)
        self._setup()
        clocks.before_loop(code, _LEFT, self.step)
        code("s_sub_u32", _LEFT, _LEFT, self.step)
        code.align()
        code.label(f"{self.name}_loop")
        for number, one in enumerate(self.loop[:-2]):
            self._write(one, number)
        code("s_sub_u32", _LEFT, _LEFT, self.step)
        code("s_cbranch_scc0", f"{self.name}_loop")
        clocks.after_loop(code)
        clocks.end(code)
        code("s_endpgm")
        lines = tuple(insert_wait_states(list(code.lines), machine))
        resources, title = clocks.resources(), f"{self.name}: a loop to be measured"
        text, _ = kernel_text(
            self.name, machine.encoded_as, lines, resources, clocks.arguments, title
        )
        require_no_hazards(text, machine)
        return StreamKernel(
            self.name,
            text,
            machine.arch,
            lines,
            self.waves,
            clocks.arguments,
            clocks.timing,
            self.step,
        )

    def _setup(self) -> None:
        code, lanes = self.code, WAVE_LANES.bit_length() - 1
        code.comment("the data, and what lanes read of it and of LDS")
        code("s_load_dwordx2", _BUFFER.part(0, 2), _KERNARG, ARGUMENTS[0].offset)
        code("s_load_dword", _LEFT, _KERNARG, ARGUMENTS[1].offset)
        code("v_readfirstlane_b32", _WAVE, vgpr(0))
        code("s_lshr_b32", _WAVE, _WAVE, lanes)
        code("v_and_b32", _LANE, WAVE_LANES - 1, vgpr(0))
        code("v_lshlrev_b32", _LDS, 4, vgpr(0))
        code("s_lshl_b32", _SPARE, _WAVE, _WAVE_BYTES.bit_length() - 1)
        code("s_add_u32", M0, _SPARE, _WAVE_BYTES * self.waves)
        code.wait(lgkm=0)
        code("s_mov_b32", _BUFFER.part(2), _LEFT)
        code("s_mov_b32", _BUFFER.part(3), RAW_BUFFER)
        at = 0
        for number, one in enumerate(self.loads):
            code("v_lshlrev_b32", _PLACE, one.bytes_per_lane.bit_length() - 1, _LANE)
            code("s_mul_i32", _SPARE, _WAVE, one.bytes)
            code("s_add_u32", _SPARE, _SPARE, at)
            code("v_add_u32", vgpr(_OFFSETS + number), _SPARE, _PLACE)
            at += one.bytes * self.waves
        for register in range(_A.index, _OFFSETS):
            code("v_mov_b32", vgpr(register), 0)
        for register in range(ACCUMULATORS * self.result):
            code("v_accvgpr_write_b32", agpr(register), 0)

    def _result(self, one: WaveOp) -> Register:
        """A register of its own, in turn; that of the chain, where it has one."""
        first, size, results = _POOLS[one.kind]
        if one.chain is not None:
            return vgpr(_CHAIN, size)
        turn = self.turns[one.kind] = self.turns.get(one.kind, -1) + 1
        return vgpr(first + size * (turn % results), size)

    def _write(self, one: WaveOp, number: int) -> None:
        code = self.code
        write: Mapping[Kind, Callable[[WaveOp], object]] = {
            Kind.MFMA: self._matrix,
            Kind.VALU: lambda op: self._vector(op, "v_add_f32", "=v1", "svi1", "svi1"),
            Kind.PACKED: lambda op: self._vector(op, "v_pk_mul_f32", "=v2", "v2", "v2"),
            Kind.TRANS: lambda op: self._vector(op, "v_exp_f32", "=v1", "svi1"),
            Kind.LDS_READ: lambda op: code("ds_read_b128", self._result(op), _LDS),
            Kind.LDS_WRITE: lambda _: code("ds_write_b128", _LDS, _B),
            Kind.GLOBAL_TO_LDS: self._load,
            Kind.GLOBAL_TO_VGPR: self._load,
            Kind.WAIT: lambda op: code.wait(vm=op.vm, lgkm=op.lgkm),
            Kind.BARRIER: lambda _: code("s_barrier"),
            Kind.SALU: lambda _: code("s_mov_b32", _SPARE, 0),
            Kind.NOP: lambda op: code("s_nop", op.amount),
            Kind.SET_PRIO: lambda op: code("s_setprio", op.amount),
        }
        if one.kind not in write or one.bytes_per_lane == 8:
            raise ConfigError(
                f"instruction {number} of the stream, {one.label}, is not written as a kernel",
                hint="M, V, P, X, R, W, G, g, S, N, B, prio and waits are",
                field="stream",
            )
        write[one.kind](one)

    def _vector(self, one: WaveOp, name: str, *operands: str) -> None:
        result = self._result(one)
        sources: list[Register] = [result if one.chain else _A.part(0, result.count)]
        sources += [_B.part(0, result.count)] * (len(operands) - 2)
        self.code(Opcode(name, MNEMONICS[name].unit, operands), result, *sources)

    def _matrix(self, one: WaveOp) -> None:
        op = one.matrix_op
        assert op is not None
        turn = 0
        if one.chain is None:
            turn = self.turns[one.kind] = self.turns.get(one.kind, -1) % (ACCUMULATORS - 1) + 1
        sums = agpr(turn * self.result, self.result)
        factor = _factor_registers(op)
        self.code(_matrix_name(op), sums, _A.part(0, factor), _B.part(0, factor), sums)

    def _load(self, one: WaveOp) -> None:
        place = vgpr(_OFFSETS + self.loaded)
        self.loaded += 1
        if one.kind is Kind.GLOBAL_TO_LDS:
            name = LDS_DMA_BY_BYTES[one.bytes_per_lane]
            self.code(name, place, _BUFFER, _LEFT, modifiers=["offen", "lds"])
        else:
            self.code(
                "buffer_load_dwordx4",
                self._result(one),
                place,
                _BUFFER,
                _LEFT,
                modifiers=["offen"],
            )


def _matrix_name(op: MatrixOp) -> str:
    return f"v_mfma_f32_{op.m}x{op.n}x{op.k}_{op.dtype}"


def _factor_registers(op: MatrixOp) -> int:
    return op.m * op.k * 16 // (WAVE_LANES * 32)

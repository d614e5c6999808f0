"""Which lines of an emitted kernel a wave executes, in order.

A wave's path depends on scalars only: the loop count on sizes, the group on the wave number, the
form of the store on alignment. So the scalar instructions are executed, and of the vector ones what
leads from lane 0's thread number to the wave number; every other value is unknown, which is fine
until a branch asks for it. Example, wave 4 of a ping-pong at the start of the second group::

    s_cmp_eq_u32 s25, 4            s25 is the wave number
    s_cbranch_scc1 .L..group_1     taken

A loop is what lies between a label and a branch back to it; a wave's path is cut at the one that it
spends most instructions in, and trips through others are part of what comes before and after.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

from pipeloom.errors import ConfigError
from pipeloom.judge.emulate.scalar_ops import COMPARE, SOP2, signed
from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.mnemonics import Pipe
from pipeloom.write.isa import SCC, Bank, Instruction, Label, Line, Operand, Register

MAX_STEPS = 5_000_000
"""Lines of one wave; beyond this a loop surely does not end."""

WORD = 1 << 32


@dataclass(frozen=True, slots=True)
class Executed:
    """One instruction on a wave's path; ``jumped`` says that it was a branch taken."""

    line: int
    instruction: Instruction
    jumped: bool = False


@dataclass(frozen=True, slots=True)
class WavePath:
    """A wave's path, cut at the loop; ``iterations`` holds the path of each trip."""

    prologue: tuple[Executed, ...]
    iterations: tuple[tuple[Executed, ...], ...]
    epilogue: tuple[Executed, ...]


def walk_wave(lines: Sequence[Line], wave: int, arguments: Mapping[int, int]) -> WavePath:
    """Follow one wave of workgroup (0, 0).

    ``arguments`` are the kernel's, as 32-bit words by byte offset; what is missing is unknown.
    Raises ``ConfigError`` where a branch depends on an unknown value.
    """
    labels = {line.name: at for at, line in enumerate(lines) if isinstance(line, Label)}
    scalars = _Scalars(wave, arguments)
    path: list[Executed] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if not isinstance(line, Instruction):
            at += 1
            continue
        if line.opcode.name == "s_endpgm":
            break
        if len(path) >= MAX_STEPS:
            raise ConfigError(
                f"wave {wave} has not ended after {MAX_STEPS} instructions",
                hint="simulate fewer K tiles",
                field="k_tiles",
            )
        target = scalars.branch(line)
        scalars.execute(line)
        path.append(Executed(at, line, target is not None))
        at = at + 1 if target is None else labels[target]
    return _cut(path, _own_loop(path, loops(lines)))


def loops(lines: Sequence[Line]) -> list[tuple[int, int]]:
    """Lines of each loop's label and of the branch back to it, in order."""
    labels = {line.name: at for at, line in enumerate(lines) if isinstance(line, Label)}
    return [
        (labels[target], at)
        for at, line in enumerate(lines)
        if isinstance(line, Instruction)
        and (target := line.target) is not None
        and labels[target] < at
    ]


def _own_loop(path: Sequence[Executed], known: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """The loop that a wave runs longest, or the last that it jumps over; None where there is none.

    The code of its group follows that of the groups before it, whose loops it jumps over first.
    """
    lines = [step.line for step in path]
    spent = {loop: sum(loop[0] <= line <= loop[1] for line in lines) for loop in known}
    if any(spent.values()):
        return max(known, key=lambda loop: spent[loop])
    passed = [loop for loop in known if lines and lines[-1] > loop[1]]
    return passed[-1] if passed else None


def _cut(path: Sequence[Executed], loop: tuple[int, int] | None) -> WavePath:
    """The path before, in and behind the loop."""
    if loop is None:
        return WavePath(tuple(path), (), ())
    head, back = loop
    inside = [at for at, step in enumerate(path) if head <= step.line <= back]
    first = next((at for at, step in enumerate(path) if step.line > back), len(path))
    last = first
    if inside:
        first, last = inside[0], inside[-1] + 1
    trips: list[tuple[Executed, ...]] = []
    start = first
    for at in range(first, last):
        if path[at].line == back:
            trips.append(tuple(path[start : at + 1]))
            start = at + 1
    return WavePath(tuple(path[:first]), tuple(trips), tuple(path[last:]))


_OF_LANE_0: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "v_and_b32": operator.and_,
        "v_lshrrev_b32": lambda a, b: b >> (a & 31),
        "v_lshlrev_b32": lambda a, b: b << (a & 31),
        "v_add_u32": operator.add,
    }
)
"""Vector instructions between a thread's number and its wave's."""


def _of_floats(function: Callable[..., float]) -> Callable[..., int]:
    """Of the bits of f32 numbers, as bits."""
    return lambda *bits: _bits(function(*(_number(one) for one in bits)))


def _number(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _bits(number: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", number))[0])


_FLOATS: Mapping[str, Callable[..., int]] = MappingProxyType(
    {
        "v_cvt_f32_u32": _bits,
        "v_cvt_u32_f32": lambda a: int(_number(a)),
        "v_rcp_f32": _of_floats(lambda a: 1 / a if a else inf),
        "v_add_f32": _of_floats(operator.add),
        "v_mul_f32": _of_floats(operator.mul),
    }
)
"""Vector instructions of a division, whose quotient the scalar unit takes."""


class _Scalars:
    """The scalar registers of a wave, and lane 0 of its vector registers, as far as known."""

    def __init__(self, wave: int, arguments: Mapping[int, int]) -> None:
        self._wave = wave
        self._arguments = arguments
        self._values: dict[tuple[Bank, int], int] = {
            (Bank.SCALAR, 0): 0,
            (Bank.SCALAR, 2): 0,
            (Bank.SCALAR, 3): 0,
            (Bank.SCALAR, 4): 0,
            (Bank.VECTOR, 0): wave * WAVE_LANES,
        }

    def branch(self, line: Instruction) -> str | None:
        """The label that a branch jumps to; None for a branch not taken and for the rest."""
        target = line.target
        if target is None or line.opcode.name == "s_branch":
            return target
        flag = self._value(SCC)
        if flag is None:
            raise ConfigError(
                f"wave {self._wave}: {str(line)!r} depends on a value the simulator does not know",
                hint="pass the kernel's arguments, as 32-bit words by byte offset",
                field="arguments",
            )
        return target if flag == (line.opcode.name == "s_cbranch_scc1") else None

    def execute(self, line: Instruction) -> None:
        """Update what the instruction writes; a result that cannot be computed is unknown."""
        if line.opcode.unit is Pipe.MATRIX:
            return
        results = self._results(line)
        written = [
            (register.bank, register.index + i)
            for register in line.writes
            for i in range(register.count)
        ]
        for place, value in zip(written, [*results, *[None] * len(written)], strict=False):
            if value is None:
                self._values.pop(place, None)
            else:
                self._values[place] = value % WORD

    def _results(self, line: Instruction) -> list[int | None]:
        """Words of what it writes, SCC last; shorter where the rest is unknown."""
        name = line.opcode.name
        if name.startswith("s_load_"):
            offset, words = line.operands[2], line.writes[0].count
            base = line.operands[1]
            assert isinstance(offset, int)
            assert isinstance(base, Register)
            offset += self._value(base.part(0)) or 0
            return [self._arguments.get(offset + 4 * word) for word in range(words)]
        if name == "s_or_b64":  # lanes of a condition, which seldom holds in any
            return [None, None, 0]
        skip = sum(code.startswith("=") for code in line.opcode.operands)
        values = [self._value(operand) for operand in line.operands[skip:]]
        if name in ("s_mov_b32", "v_mov_b32", "v_readfirstlane_b32"):
            return values
        if name in _FLOATS and None not in values:
            return [_FLOATS[name](*values)]
        if len(values) != 2 or (left := values[0]) is None or (right := values[1]) is None:
            return []
        if name in SOP2:
            return list(SOP2[name][-1](left, right))
        if name.startswith("s_cmp_"):
            _, _, relation, kind = name.split("_")
            if kind == "i32":
                left, right = signed(left), signed(right)
            return [int(COMPARE[relation](left, right))]
        return [_OF_LANE_0[name](left, right)] if name in _OF_LANE_0 else []

    def _value(self, operand: Operand) -> int | None:
        if isinstance(operand, int):
            return operand % WORD
        if isinstance(operand, Register) and operand.count == 1:
            return self._values.get((operand.bank, operand.index))
        return None

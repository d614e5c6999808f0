"""The vector ALU engine: operands, modifiers, EXEC, and one table row per operation.

An operation is a ``VecOp``: the type of its result, the types of its sources (``vector_values``
has them), and a NumPy function. This file turns a row into a step for any encoding that carries it
(VOP1, VOP2, VOP3, VOP3P, SDWA, DPP); the rows live in ``valu_integer``, ``valu_float``,
``valu_convert``, ``valu_wide`` and ``packed``. Example:

    "v_add_f32": VecOp("f32", ("f32", "f32"), np.add)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeloom.array_kinds import Array, Flags
from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.lane_select import dpp_selection
from pipeloom.judge.emulate.operands import ReadOperand, all_registers, unsupported
from pipeloom.judge.emulate.register_numbers import LANES, VCC, VGPR, register_bits
from pipeloom.judge.emulate.screening import (
    screen_bits,
    screen_copy,
    screen_reads,
    screen_upper,
)
from pipeloom.judge.emulate.step import MicroOp, Screen
from pipeloom.judge.emulate.vector_values import (
    result_writer,
    source_codes,
    vector_sources,
    words_of,
)
from pipeloom.judge.emulate.wave import Wave, lanes_of, mask_of

Function = Callable[..., Array]

_LEFTWARD = ("v_lshl_add_u64", "v_lshlrev_b64", "v_mad_u64_u32", "v_mad_i64_i32")
"""64-bit operations in which information flows upwards only."""


@dataclass(frozen=True, slots=True)
class VecOp:
    """One vector operation. ``accumulates`` adds the old destination as the last source.

    ``copies`` marks plain moves, which carry poison instead of reporting it; ``moves_bits`` marks
    shifts, masks and picks, which carry undefined registers (see ``screening``). ``keeps_half``
    marks 16-bit results that leave the upper half of the register alone, beside those of three
    sources; ``upper_half`` those that go to it. ``saturated`` is the function of an integer
    operation with clamp. The function of one that ``takes_mask`` has as its last argument the lanes
    of VCC, or of the source behind its own; one that ``gives_mask`` returns lanes beside its
    result, which go to the scalar destination or to VCC.
    """

    result: str
    sources: tuple[str, ...]
    function: Callable[..., Any]
    accumulates: bool = False
    copies: bool = False
    moves_bits: bool = False
    keeps_half: bool = False
    upper_half: bool = False
    saturated: Callable[..., Array] | None = None
    takes_mask: bool = False
    gives_mask: bool = False


def in_turn(function: Function) -> Function:
    """The function of two on three: of the first two, then with the third."""
    return lambda a, b, c: function(function(a, b), c)


def comparing(least: Function, most: Function) -> dict[str, tuple[int, Function]]:
    """Smaller, larger and middle ones by name: how many sources, and what is computed."""
    return {
        "min": (2, least),
        "max": (2, most),
        "min3": (3, in_turn(least)),
        "max3": (3, in_turn(most)),
        "med3": (3, lambda a, b, c: most(least(a, b), least(most(a, b), c))),
    }


def every_lane(lanes: Flags) -> int:
    """A mask of lanes, or of one value for all."""
    return mask_of(lanes if lanes.size == LANES else np.broadcast_to(lanes, (LANES,)))


def build_op(instruction: Decoded, op: VecOp) -> MicroOp:
    """The step of one table row."""
    fields, variant = instruction.fields, instruction.variant
    codes = source_codes(instruction)
    target, width = VGPR + fields["vdst"], words_of(op.result)
    if op.accumulates:
        codes = (*codes[: len(op.sources) - 1], target)
    sources = vector_sources(instruction, op.sources, codes)
    write, keeps = result_writer(
        instruction,
        op.result,
        keeps=op.keeps_half or (op.result.endswith("16") and len(op.sources) == 3),
        upper=op.upper_half,
        saturates=op.saturated is not None,
    )
    function = op.function
    if op.saturated is not None and fields.get("clmp"):
        function = op.saturated
    if op.takes_mask:
        taken = codes[len(op.sources)] if len(codes) > len(op.sources) else VCC
        sources.append(
            ReadOperand(lambda wave: lanes_of(wave.read_mask(taken)), register_bits(taken, 2))
        )
    readers = [source.read for source in sources]
    reads, writes = all_registers(sources), register_bits(target, width)
    kept = writes if keeps else 0
    if variant.startswith("SDWA"):
        # Compilers merge into what is defined: unlike an undefined half, a merge with one is said.
        reads |= kept
    screen = _screen(instruction, op, codes)

    def run(wave: Wave) -> None:
        write(wave, function(*[read(wave) for read in readers]))

    if not op.gives_mask:
        return MicroOp(instruction, run, reads, writes, screen, keeps=kept)
    if variant not in ("", "LIT"):
        raise unsupported(instruction, variant)
    given = fields.get("sdst", VCC)

    def run_with_mask(wave: Wave) -> None:
        value, lanes = function(*[read(wave) for read in readers])
        write(wave, value)
        wave.write_mask(given, every_lane(lanes) & wave.exec_mask)

    return MicroOp(instruction, run_with_mask, reads, writes | register_bits(given, 2), screen)


def _screen(instruction: Decoded, op: VecOp, codes: Sequence[int]) -> Screen:
    """What is looked at before the operation."""
    if instruction.variant == "DPP16":
        return dpp_selection(instruction).screen(codes[0], copies=op.copies)
    if op.copies:
        return screen_copy
    if op.moves_bits:
        return screen_bits
    if instruction.name in _LEFTWARD:
        uppers = [
            code + 1
            for code, kind in zip(codes, op.sources, strict=False)
            if kind == "u64" and code >= VGPR
        ]
        return screen_upper(uppers, VGPR + instruction.fields["vdst"] + 1)
    return screen_reads

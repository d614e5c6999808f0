"""A kernel's code as executable steps: one family per file, tried in turn."""

from __future__ import annotations

from functools import lru_cache

from pipeloom.judge.emulate import (
    atomics,
    code_modes,
    control,
    ds,
    ds_permute,
    mfma,
    salu,
    smem,
    vmem,
    vopc,
)
from pipeloom.judge.emulate.decode import Decoded, decode_kernel
from pipeloom.judge.emulate.operands import unsupported
from pipeloom.judge.emulate.packed import PACKED_OPS, dot_op
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.traps import EmulateError, UnsupportedInstructionError
from pipeloom.judge.emulate.valu import build_op
from pipeloom.judge.emulate.valu_convert import CONVERT_OPS, float8_ops
from pipeloom.judge.emulate.valu_float import FLOAT_OPS
from pipeloom.judge.emulate.valu_integer import INTEGER_OPS
from pipeloom.judge.emulate.valu_scaled import build_scaled
from pipeloom.judge.emulate.valu_special import build_special
from pipeloom.judge.emulate.valu_wide import WIDE_OPS
from pipeloom.judge.emulate.wave import Wave

VECTOR_OPS = {**INTEGER_OPS, **FLOAT_OPS, **CONVERT_OPS, **WIDE_OPS, **PACKED_OPS}
_VECTOR_ENCODINGS = frozenset({"VOP1", "VOP2", "VOP3", "VOP3SD", "VOP3P", "VOPC"})


@lru_cache(maxsize=64)
def build_program(code: bytes, arch: str) -> tuple[MicroOp, ...]:
    """The steps of a kernel, kept by code bytes: they hold no state of a run.

    Raises UnsupportedInstructionError when instructions are not modelled, before anything is
    executed; the message names the first, with its place, and every other by name.
    """
    instructions = decode_kernel(code)
    places = {instruction.pc: at for at, instruction in enumerate(instructions)}
    steps: list[MicroOp] = []
    refused: dict[str, UnsupportedInstructionError] = {}
    by_index = code_modes.indexed_pcs(instructions)
    skips = code_modes.skip_places(instructions)

    def make(instruction: Decoded) -> MicroOp:
        return code_modes.build_skip(instruction, skips) or build_step(instruction, arch, places)

    for instruction in instructions:
        try:
            if instruction.pc in by_index:
                steps.append(code_modes.indexed(instruction, make))
            else:
                steps.append(make(instruction))
        except UnsupportedInstructionError as error:
            refused.setdefault(instruction.name, error)
    if refused:
        raise _refusal(refused)
    return (*steps, _past_the_end(len(code)))


def _refusal(refused: dict[str, UnsupportedInstructionError]) -> UnsupportedInstructionError:
    first, *others = refused.values()
    if not others:
        return first
    rest = ", ".join(list(refused)[1:])
    return UnsupportedInstructionError(
        f"{first.message}; nor are {len(others)} more: {rest}", hint=first.hint
    )


def _past_the_end(pc: int) -> MicroOp:
    """A step behind the last one, so that falling off the kernel is an error of the kernel."""

    def run(wave: Wave) -> None:
        raise EmulateError(
            f"wave {wave.index} runs past the kernel's last instruction at pc {pc:#x}",
            hint="end every path in s_endpgm",
        )

    return MicroOp(Decoded(pc, 4, "end of kernel", "", "", {}), run)


def build_step(instruction: Decoded, arch: str, places: dict[int, int]) -> MicroOp:
    """One instruction; ``places`` maps a pc to its place in the program, for branches."""
    step = (
        code_modes.build(instruction)
        or control.build(instruction, places)
        or smem.build(instruction)
        or salu.build(instruction)
        or mfma.build(instruction, arch)
        or ds_permute.build(instruction)
        or atomics.build(instruction)
        or ds.build(instruction)
        or vmem.build(instruction, arch)
    )
    if step is None and instruction.encoding in _VECTOR_ENCODINGS:
        step = vopc.build(instruction) or build_special(instruction) or build_scaled(instruction)
        if step is None:
            op = VECTOR_OPS.get(instruction.name) or dot_op(instruction)
            op = op or float8_ops(arch).get(instruction.name)
            if op is not None:
                step = build_op(instruction, op)
    if step is None:
        raise unsupported(instruction)
    return step

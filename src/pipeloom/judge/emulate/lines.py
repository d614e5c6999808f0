"""From program counters back to assembly lines, so that findings can name them.

The assembler keeps the order of instructions, so the k-th instruction line of a kernel is its k-th
decoded instruction; mnemonics are compared on the way, and padding that an alignment directive
inserted is skipped. Works for our emitter's output and for a compiler's.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeloom.judge.emulate.decode import Decoded, decode_kernel
from pipeloom.judge.emulate.loader import CodeKernel
from pipeloom.judge.emulate.traps import EmulateError
from pipeloom.judge.wait_states.assembly import assembly_lines
from pipeloom.machine.mnemonics import SUFFIXES
from pipeloom.machine.source_lines import SourceLine

_ALIASES = {
    "v_fma_mix_f32": "v_mad_mix_f32",
    "v_fma_mixlo_f16": "v_mad_mixlo_f16",
    "v_fma_mixhi_f16": "v_mad_mixhi_f16",
}


def map_lines(
    kernel: CodeKernel, assembly: str, entries: Mapping[int, str] | None = None
) -> dict[int, SourceLine]:
    """The source line of every instruction, by pc.

    ``entries`` names the schedule entry of a line (1-based), where there is one. Raises
    EmulateError where text and code disagree: then they are not of the same kernel.
    """
    given = assembly_lines(assembly)
    if kernel.name not in given.labels:
        raise EmulateError(f"the assembly has no label {kernel.name!r}")
    lines = given.lines[given.labels[kernel.name] : given.ends.get(kernel.name)]
    found: dict[int, SourceLine] = {}
    at = 0
    for instruction in decode_kernel(kernel.code):
        if at < len(lines) and _matches(instruction, lines[at][1]):
            number, text = lines[at]
            entry = entries.get(number) if entries else None
            found[instruction.pc] = SourceLine(number, text, entry)
            at += 1
        elif instruction.name != "s_nop":
            expected = f"line {lines[at][0]}: {lines[at][1]}" if at < len(lines) else "the end"
            raise EmulateError(
                f"assembly and code object disagree at pc {instruction.pc:#x}: the code has "
                f"{instruction.name}, the text {expected}",
                hint="pass the assembly that this code object was made from, without macros",
            )
    if at < len(lines):
        raise EmulateError(
            f"the code object ends before line {lines[at][0]} of the assembly: {lines[at][1]}"
        )
    return found


def _matches(instruction: Decoded, text: str) -> bool:
    mnemonic = text.split(None, 1)[0].lower()
    suffix = next((one for one in SUFFIXES if mnemonic.endswith(one)), "")
    mnemonic = mnemonic.removesuffix(suffix)
    return _ALIASES.get(mnemonic, mnemonic) == instruction.name

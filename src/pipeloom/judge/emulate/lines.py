"""From program counters back to assembly lines, so that findings can name them.

The assembler keeps the order of instructions, so the k-th instruction line of a kernel is its k-th
decoded instruction; mnemonics are compared on the way, and padding that an alignment directive
inserted is skipped. Works for our emitter's output and for a compiler's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pipeloom.judge.emulate.decode import Decoded, decode_kernel
from pipeloom.judge.emulate.loader import CodeKernel
from pipeloom.judge.emulate.traps import EmulateError
from pipeloom.machine.source_lines import SourceLine

_COMMENT = re.compile(r"//.*|;.*|/\*.*?\*/")
_LABEL = re.compile(r"^\s*[\w.$@]+:")
_SUFFIXES = ("_e32", "_e64", "_sdwa", "_dpp", "_e64_dpp")
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
    lines = _instruction_lines(kernel.name, assembly)
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


def _instruction_lines(name: str, assembly: str) -> list[tuple[int, str]]:
    """(line number, text) of every instruction from the kernel's label to its end."""
    inside = False
    lines: list[tuple[int, str]] = []
    for number, raw in enumerate(assembly.splitlines(), 1):
        text = _COMMENT.sub("", raw)
        while (label := _LABEL.match(text)) is not None:
            inside = inside or label[0].strip() == f"{name}:"
            text = text[label.end() :]
        text = text.strip()
        if not inside or not text:
            continue
        if text.startswith((".size", ".section", ".rodata", ".amdhsa_kernel", ".end_")):
            break
        if not text.startswith("."):
            lines.append((number, text))
    if not inside:
        raise EmulateError(f"the assembly has no label {name!r}")
    return lines


def _matches(instruction: Decoded, text: str) -> bool:
    mnemonic = text.split(None, 1)[0].lower()
    for suffix in _SUFFIXES:
        mnemonic = mnemonic.removesuffix(suffix)
    return _ALIASES.get(mnemonic, mnemonic) == instruction.name

"""What the judge is told of an instruction, whichever front end read it.

Registers are the numbers of the ISA's operand encoding, with accumulators behind the rest:
SGPRs from 0, vcc 106, m0 124, exec 126, vccz 251, execz 252, VGPRs from 256, AGPRs from 512.

    v_mfma_f32_16x16x32_bf16 a[0:3], v[8:11], v[12:15], a[0:3]
    -> Issued(place=7, text=..., name="v_mfma_f32_16x16x32_bf16",
              operands=((512, ...), (264, ...), (268, ...), (512, ...)))
"""

from __future__ import annotations

from dataclasses import dataclass

VCC = 106
M0 = 124
EXEC = 126
VCCZ = 251
EXECZ = 252
VGPR = 256
AGPR = 512
FLAT_SCRATCH = 102
XNACK_MASK = 104
TRAP_TEMPORARY = 108

Registers = tuple[int, ...]

_NAMES = {
    FLAT_SCRATCH: "flat_scratch",
    XNACK_MASK: "xnack_mask",
    VCC: "vcc",
    M0: "m0",
    EXEC: "exec",
    VCCZ: "vccz",
    EXECZ: "execz",
}

DST_SELECT = 8
"""Bit of ``op_sel`` that selects a part of the destination (bits 0 to 2 are the sources')."""


@dataclass(frozen=True, slots=True)
class Issued:
    """One instruction, operands in the order in which LLVM prints them.

    ``targets`` are positions in the program, not addresses. ``problem`` is set where the front end
    could not read the instruction to its end; the judge then reports that.
    """

    place: int
    """Line or byte offset: the front end's own."""
    text: str
    name: str
    """Mnemonic without the suffix for the encoding."""
    operands: tuple[Registers, ...] = ()
    """Registers of each operand; empty for a constant."""
    modifiers: frozenset[str] = frozenset()
    op_sel: int = 0
    wait_states: int = 1
    hardware_register: int | None = None
    """Which one s_setreg and s_getreg name."""
    targets: tuple[int, ...] = ()
    problem: str = ""


def register_name(number: int) -> str:
    """``v3``, ``a7``, ``s12``, ``vcc``: as in assembly."""
    if number >= AGPR:
        return f"a{number - AGPR}"
    if number >= VGPR:
        return f"v{number - VGPR}"
    if number in _NAMES:
        return _NAMES[number]
    if number - 1 in _NAMES and number != M0 + 1:
        return f"{_NAMES[number - 1]}_hi"
    if TRAP_TEMPORARY <= number < M0:
        return f"ttmp{number - TRAP_TEMPORARY}"
    return f"s{number}"


def is_vector(register: int) -> bool:
    """Whether it is held per lane."""
    return register >= VGPR


def is_scalar(register: int) -> bool:
    """Whether it is an SGPR, vcc, m0 or exec."""
    return 0 <= register < 128

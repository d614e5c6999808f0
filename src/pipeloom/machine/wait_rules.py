"""The wait states that CDNA3 and CDNA4 ask of software, one row each, with its source.

A row says how an instruction must touch registers to start a danger, how another must touch them to
run into it, and for how many wait states. Who inserts ``s_nop`` and who judges a kernel read the
same rows; which registers an instruction touches in which way, each works out for itself.

    VALU result, then a matrix instruction that reads it: 2 wait states
    starts=(Use.PLAIN_RESULT,), meets=MATRIX_READ, states=States(2)

Matrix instructions differ in passes (of four cycles) and kind; "n" is the passes of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from functools import lru_cache

from pipeloom.machine.mnemonics import MNEMONICS, Matrix, Traits


class Danger(IntEnum):
    """What can go wrong with a register."""

    RESULT_TO_FACTOR = 0
    RESULT_TO_XDL_ADDEND = 1
    RESULT_TO_OTHER_ADDEND = 2
    RESULT_TO_CHAIN = 3
    RESULT_TO_VALU = 4
    RESULT_TO_MEMORY = 5
    RESULT_OVERWRITTEN = 6
    ADDEND_OVERWRITTEN = 7
    VECTOR_TO_MATRIX = 8
    EXEC_TO_MATRIX = 9
    DGEMM_TO_FMA64 = 10
    DOT_TO_FACTOR = 11
    DOT_TO_ADDEND = 12
    DOT_OVERWRITTEN = 13
    TRANSCENDENTAL = 14
    PARTIAL = 15
    SCALAR_TO_VALU = 16
    SCALAR_TO_MEMORY = 17
    SCALAR_TO_LANE_SELECT = 18
    VECTOR_TO_LANE = 19
    EXEC_TO_LANE = 20
    VCC_TO_DIV_FMAS = 21
    ZERO_FLAG = 22
    VECTOR_TO_DPP = 23
    EXEC_TO_DPP = 24
    VECTOR_TO_PERMLANE = 25
    EXEC_TO_PERMLANE = 26
    M0 = 27
    STORE_DATA = 28
    STORE_DATA_SCALAR_OFFSET = 29
    SETREG = 30
    STORE_DATA_LOADED = 31


class Use(Enum):
    """A way of touching registers. Those without a register are whole instructions."""

    __hash__ = object.__hash__  # that of Enum hashes a name, in Python

    MATRIX = auto()
    """Any matrix instruction."""
    DGEMM = auto()
    MATRIX_RESULT = auto()
    MATRIX_FACTOR = auto()
    """Read as A, B, scale or index."""
    XDL_ADDEND = auto()
    OTHER_ADDEND = auto()
    """C of SGEMM or DGEMM."""
    VALU_READ = auto()
    """A vector register, as all that follow up to DPP."""
    VALU_WRITE = auto()
    PLAIN_RESULT = auto()
    """Of any but dot products."""
    SLOW_RESULT = auto()
    """Of a transcendental instruction."""
    QUICK_READ = auto()
    """By any other than transcendental ones."""
    PARTIAL_RESULT = auto()
    """In a part of a register."""
    DOT_RESULT = auto()
    DOT_FACTOR = auto()
    DOT_ADDEND = auto()
    NO_DOT_READ = auto()
    """By any VALU instruction but dot products."""
    LANE_READ = auto()
    PERMLANE_READ = auto()
    DPP_READ = auto()
    VALU_SCALAR_READ = auto()
    VALU_SCALAR_WRITE = auto()
    """An SGPR, vcc, m0 or exec written by VALU."""
    LANE_SELECT = auto()
    FLAG_READ = auto()
    """Of vccz or execz."""
    FLAG_WRITE = auto()
    """By VALU, with vcc or exec."""
    VALU_EXEC_WRITE = auto()
    VALU_VCC_WRITE = auto()
    LANE = auto()
    """Any instruction that reads or writes one lane."""
    PERMLANE = auto()
    DPP = auto()
    FMA64 = auto()
    DIV_FMAS = auto()
    MEMORY_READ = auto()
    """A vector register, by LDS or memory instructions."""
    MEMORY_WRITE = auto()
    MEMORY_SCALAR_READ = auto()
    """By memory instructions, exec and an implied m0 included."""
    STORE_DATA = auto()
    """More than 8 bytes of it, of a store or an atomic."""
    STORE_DATA_SCALAR_OFFSET = auto()
    """The same, with a register as soffset."""
    SALU_M0_WRITE = auto()
    M0_READ = auto()
    """Without naming it."""
    SETREG = auto()
    HARDWARE_REGISTER = auto()
    """Named by s_setreg or s_getreg."""


MATRIX_READ = (Use.MATRIX_FACTOR, Use.XDL_ADDEND, Use.OTHER_ADDEND)


class Basis(Enum):
    """Who asks for the wait states."""

    REQUIRED = "required"
    """The ISA documents, or results that go wrong without them."""
    CUSTOMARY = "customary"
    """Compilers keep them, while kernels written by hand and shipped leave them out by the ten
    thousand (ROCm/aiter, hsa/gfx950): no reason to fail a kernel of others."""


SHORT = 2
"""Passes of the shortest matrix instructions."""


@dataclass(frozen=True, slots=True)
class States:
    """Wait states after an instruction: a number, or by the kind and passes of a matrix one."""

    always: int = 0
    """After any instruction."""
    xdl: int | None = None
    """After XDL, beyond its passes."""
    chip: bool = False
    """Whether the chip's ``mfma_result_states`` are added to that."""
    short: int | None = None
    """After XDL, or SGEMM if ``sgemm`` says nothing, of two passes."""
    sgemm: int | None = None
    """After SGEMM, beyond its passes."""
    dgemm: tuple[tuple[int, int], ...] = ()
    """After DGEMM, by its passes."""

    def after(self, first: Traits, result_states: int) -> int:
        """After an instruction with these traits, on a chip with such ``mfma_result_states``."""
        if first.matrix is None:
            return self.always
        if first.matrix is Matrix.DGEMM:
            return dict(self.dgemm).get(first.passes, self.always)
        if first.matrix is Matrix.SGEMM and self.sgemm is not None:
            return first.passes + self.sgemm
        if first.passes == SHORT and self.short is not None:
            return self.short
        if first.matrix is Matrix.SGEMM or self.xdl is None:
            return self.always
        return first.passes + self.xdl + (result_states if self.chip else 0)


@dataclass(frozen=True, slots=True)
class WaitRule:
    """Wait states between two instructions that touch a register in the ways it names."""

    danger: Danger
    """What can go wrong; one rule for each."""
    first: str
    """The first instruction, in words."""
    second: str
    """The second, in words."""
    starts: tuple[Use, ...]
    """How the first touches the register."""
    meets: tuple[Use, ...]
    """How the second does."""
    states: States
    """How many."""
    reason: str
    """What a finding says."""
    source: str
    """Where it is written."""
    basis: Basis = Basis.REQUIRED
    """Who asks for them."""
    chains: bool = False
    """Whether the same opcode may go on with the same registers at once."""


class WaitTable:
    """The rules of a chip, by what starts and what meets a danger.

    It also knows how far back a rule can reach: ``near`` for all but those of the matrix unit.
    """

    def __init__(self, rules: tuple[WaitRule, ...], result_states: int) -> None:
        self.rules = {rule.danger: rule for rule in rules}
        self.starts = {use: tuple(r for r in rules if use in r.starts) for use in Use}
        self.meets = {use: tuple(r for r in rules if use in r.meets) for use in Use}
        self.near = max((rule.states.always for rule in rules), default=0)
        self.longest = max([self.near, *(s for r in rules for s in _matrix(r, result_states))])
        self._result_states = result_states

    def after(self, rule: WaitRule, first: Traits) -> int:
        """Wait states that a rule asks for after an instruction with these traits."""
        return rule.states.after(first, self._result_states)


def _matrix(rule: WaitRule, result_states: int) -> Iterator[int]:
    """Wait states after every matrix instruction there is."""
    for traits in set(MNEMONICS.values()):
        if traits.matrix is not None:
            yield rule.states.after(traits, result_states)


@lru_cache(maxsize=64)
def wait_table(rules: tuple[WaitRule, ...], result_states: int) -> WaitTable:
    """Made once for each chip."""
    return WaitTable(rules, result_states)

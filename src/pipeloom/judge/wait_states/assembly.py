"""The front end for text: LLVM assembly for gfx942 and gfx950 to what the judge reads.

Reads every instruction line; one that it cannot read to its end becomes a finding of the judge
(``Issued.problem``), it is never skipped. Understands labels, comments, ``op_sel`` and the like,
but no macros and no expressions as register numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from pipeloom.judge.wait_states.effects import (
    AGPR,
    DST_SELECT,
    EXEC,
    EXECZ,
    FLAT_SCRATCH,
    M0,
    TRAP_TEMPORARY,
    VCC,
    VCCZ,
    VGPR,
    XNACK_MASK,
    Issued,
    Registers,
)
from pipeloom.machine.mnemonics import SUFFIXES

_COMMENT = re.compile(r"//.*|;.*|/\*.*?\*/")
_LABEL = re.compile(r"([\w.$@]+):\s*")
_END = re.compile(r"\.size\s+([\w.$@]+)")
_ENTRY = re.compile(r"\.(?:globl|amdhsa_kernel)\s+([\w.$@]+)")
_RANGE = re.compile(r"(v|a|s|ttmp)(?:(\d+)|\[(\d+)(?::(\d+))?\])$")
_WRAPPED = re.compile(r"^-?(?:neg|abs|sext)\((.*)\)$|^-?\|(.*)\|$|^-(?=[a-z])(.*)$")
_CONSTANT = re.compile(
    r"^(off|null|-?(0x[0-9a-f]+|\d+(\.\d*)?(e[+-]?\d+)?)|scc|src_.*|lit\(.*\)|[\w.$]+@\w+.*)$"
)
_BASES = {"s": 0, "v": VGPR, "a": AGPR, "ttmp": TRAP_TEMPORARY}
_PAIRS = {"vcc": VCC, "exec": EXEC, "flat_scratch": FLAT_SCRATCH, "xnack_mask": XNACK_MASK}
_SINGLES = {"m0": M0, "vccz": VCCZ, "execz": EXECZ, "src_vccz": VCCZ, "src_execz": EXECZ}
_SINGLES |= {f"{name}_lo": number for name, number in _PAIRS.items()}
_SINGLES |= {f"{name}_hi": number + 1 for name, number in _PAIRS.items()}
_FLAGS = ("sc0", "sc1", "nt")
"""Modifiers that may stand where there is no operand."""
_DPP = ("quad_perm:", "row_", "wave_", "bank_mask:")
_PACKED = re.compile(r"v_(pk_|dot|mad_mix|fma_mix|mfma|smfmac)")
_HARDWARE = {
    "HW_REG_MODE": 1,
    "HW_REG_STATUS": 2,
    "HW_REG_TRAPSTS": 3,
    "HW_REG_HW_ID": 4,
    "HW_REG_GPR_ALLOC": 5,
    "HW_REG_LDS_ALLOC": 6,
    "HW_REG_IB_STS": 7,
    "HW_REG_XCC_ID": 20,
}
_NO_REGISTERS = ("s_waitcnt", "s_nop", "s_sendmsg", "s_sendmsghalt", "s_setprio", "s_sleep")


@dataclass(slots=True)
class AssemblyLines:
    """The instructions of a text with their line numbers, and what it says beside them."""

    lines: list[tuple[int, str]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    """How many instructions stand before each label."""
    ends: dict[str, int] = field(default_factory=dict)
    """The same of where each symbol ends, as ``.size`` has it."""
    kernels: list[str] = field(default_factory=list)


def assembly_lines(text: str) -> AssemblyLines:
    """A text cut into instructions."""
    found = AssemblyLines()
    metadata = False
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _COMMENT.sub("", raw).strip()
        if line.startswith((".amdgpu_metadata", ".end_amdgpu_metadata")):
            metadata = line.startswith(".amdgpu")
        if metadata:
            continue
        while match := _LABEL.match(line):
            found.labels[match[1]] = len(found.lines)
            line = line[match.end() :]
        if match := _ENTRY.match(line):
            found.kernels.append(match[1])
        if match := _END.match(line):
            found.ends[match[1]] = len(found.lines)
        if line and not line.startswith("."):
            found.lines.append((number, line))
    return found


def read_assembly(text: str) -> tuple[list[Issued], tuple[int, ...]]:
    """The instructions of a text in order, and the positions at which execution may start."""
    found = assembly_lines(text)
    labels = found.labels
    entries = sorted({0, *(labels[name] for name in found.kernels if name in labels)})
    return [_read(number, line, labels) for number, line in found.lines], tuple(entries)


def _read(number: int, line: str, labels: dict[str, int]) -> Issued:
    mnemonic, _, rest = line.partition(" ")
    name = mnemonic
    modifiers: set[str] = set()
    for suffix in SUFFIXES:
        if mnemonic.endswith(suffix):
            name = mnemonic.removesuffix(suffix)
            modifiers |= {"dpp"} if "dpp" in suffix else set()
            break
    if name in ("s_branch",) or name.startswith("s_cbranch"):
        target = labels.get(rest.strip())
        if target is None:
            return Issued(number, line, name, problem=f"the target of {line!r} is not known")
        return Issued(number, line, name, targets=(target,))
    if name == "s_nop":
        try:
            return Issued(number, line, name, wait_states=int(rest, 0) + 1)
        except ValueError:
            return Issued(number, line, name, problem=f"{line!r} has no number")
    if name in _NO_REGISTERS:
        return Issued(number, line, name)
    if name.startswith(("s_setreg", "s_getreg")):
        return _hardware_register(number, line, name, rest)
    parts = _split(rest)
    if parts:
        first, *words = _words(parts[-1])
        modifiers |= set(words)
        if first in _FLAGS:
            modifiers.add(parts.pop())
        else:
            parts[-1] = first
    operands: list[Registers] = []
    for part in parts:
        registers = _operand(part)
        if registers is None:
            return Issued(number, line, name, problem=f"operand {part!r} of {line!r} is not clear")
        operands.append(registers)
    if any(m.startswith(_DPP) for m in modifiers):
        modifiers.add("dpp")
    if any(m.startswith("dst_sel:") and m != "dst_sel:DWORD" for m in modifiers):
        modifiers.add("partial")
    op_sel = _op_sel(name, modifiers)
    return Issued(number, line, name, tuple(operands), frozenset(modifiers), op_sel)


def _hardware_register(number: int, line: str, name: str, rest: str) -> Issued:
    match = re.search(r"hwreg\(\s*(\w+)", rest)
    which = None
    if match:
        which = int(match[1], 0) if match[1][0].isdigit() else _HARDWARE.get(match[1])
    elif (last := rest.split(",")[-1 if "get" in name else 0].strip()).isdigit():
        which = int(last) & 63
    if which is None:
        problem = f"the hardware register of {line!r} is not known"
        return Issued(number, line, name, problem=problem)
    first = _operand(rest.split(",")[0].strip()) if "get" in name else ()
    return Issued(number, line, name, (first or (),), hardware_register=which)


def _split(rest: str) -> list[str]:
    """Cut at commas that are in no bracket."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(rest):
        if letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "," and not depth:
            parts.append(rest[begin:at].strip())
            begin = at + 1
    return [part for part in (*parts, rest[begin:].strip()) if part]


def _words(part: str) -> list[str]:
    """Cut at spaces that are in no bracket."""
    return re.findall(r"(?:\[[^\]]*\]|\([^)]*\)|\|[^|]*\||[^\s\[(|])+", part)


@lru_cache(maxsize=4096)
def _operand(part: str) -> Registers | None:
    """Registers of an operand, none for a constant; None if it is neither."""
    text = part.replace(" ", "").lower()
    while match := _WRAPPED.match(text):
        text = match[1] or match[2] or match[3] or ""
    if match := _RANGE.match(text):
        base = _BASES[match[1]]
        first = int(match[2] or match[3])
        last = int(match[4] or first)
        return tuple(range(base + first, base + last + 1))
    if text in _PAIRS:
        return (_PAIRS[text], _PAIRS[text] + 1)
    if text in _SINGLES:
        return (_SINGLES[text],)
    if text.startswith("[") and text.endswith("]"):
        inner = [_operand(p) for p in text[1:-1].split(",")]
        return None if None in inner else tuple(r for p in inner if p for r in p)
    return () if _CONSTANT.match(text) else None


def _op_sel(name: str, modifiers: set[str]) -> int:
    """The selects as the ISA's four bits: three sources, destination."""
    given = next((m for m in modifiers if m.startswith("op_sel:[")), None)
    if given is None:
        return 0
    bits = [bit.strip() == "1" for bit in given[len("op_sel:[") : -1].split(",")]
    found = sum(bit << at for at, bit in enumerate(bits[:3]))
    if _PACKED.match(name) or not bits:
        return found
    # One bit per source, then the destination's; conversions to fp8 give all four.
    if len(bits) < 4 and bits[-1]:
        found = found & ~(1 << len(bits) - 1) | DST_SELECT
    return found | (DST_SELECT if len(bits) == 4 and bits[3] else 0)

"""An independent judge of wait states: reads assembly text, knows nothing of how it was made.

Walks the text forwards along every branch and keeps a countdown per register and danger: an MFMA
of 4 passes on gfx950, say, starts a countdown of 8 on its result; every wait state takes one off;
a VALU that touches the register while it runs lacks that many wait states.

    findings = check_hazards(emitted.text, "gfx950")
    [str(f) for f in findings]     # line 412: v_accvgpr_read_b32 v0, a0 lacks 3 wait state(s): ...

The table is written from the CDNA3 ISA (section "Manually Inserted Wait States", with the numbers
of LLVM's tables for gfx950), separately from ``hazards``: registers, unit and passes come from the
text by parsing, not from our instruction table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipeloom.emit.faults import HazardError

Name = tuple[str, int]
"""A register: file letter and number; vcc is ("vcc", 0), m0 ("m0", 0), exec ("exec", 0)."""
Danger = tuple[str, Name, tuple[object, ...]]
"""What is running on a register; the last part is the MFMA and its whole result, or empty."""
State = dict[Danger, int]

_OPERAND = re.compile(r"\b([vas])(\d+)\b|\b([vas])\[(\d+):(\d+)\]|\b(vcc|m0|exec)\b")
_MFMA = re.compile(r"v_mfma_\w*?f32_(\d+)x\d+x(\d+)_(\w+)")
_PASSES = {
    # (side, type) -> {depth: passes of 4 cycles}
    (16, "16bit"): {16: 4, 32: 4},
    (32, "16bit"): {8: 8, 16: 8},
    (16, "fp8"): {32: 4, 128: 8},
    (32, "fp8"): {16: 8, 64: 16},
}
RESULT = "the result of an MFMA is not there yet"
ADDEND = "the result of an MFMA is the addend of another kind of MFMA, or is taken shifted"
SOURCE_C = "an MFMA still reads its addend"
VALU_TO_MFMA = "a VALU result is not yet visible to the matrix unit"
EXEC_TO_MFMA = "a VALU write of exec is not yet visible to the matrix unit"
M0_TO_DMA = "m0 is not yet visible to LDS-DMA"
SCALAR_TO_MEMORY = "a scalar written by VALU is not yet visible to memory instructions"
SCALAR_TO_VALU = "a scalar written by VALU is not yet visible to VALU"
TO_READLANE = "a VALU result is not yet visible to v_readfirstlane"
STORE_DATA = "a store still reads its data"


@dataclass(frozen=True, slots=True)
class HazardFinding:
    """An instruction that issues too early."""

    line: int
    text: str
    missing: int
    reason: str
    register: str

    def __str__(self) -> str:
        return (
            f"line {self.line}: {self.text} lacks {self.missing} wait state(s): {self.reason} "
            f"({self.register})"
        )


@dataclass(frozen=True, slots=True)
class _Parsed:
    line: int
    text: str
    name: str
    operands: tuple[tuple[Name, ...], ...]
    """Registers of each operand; empty for constants."""
    labels: tuple[str, ...] = ()


def check_hazards(text: str, target: str) -> tuple[HazardFinding, ...]:
    """Every instruction of the text that lacks wait states, worst path each, in text order."""
    program, entries = _parse(text)
    extra = 1 if target == "gfx950" else 0
    states: list[State | None] = [None] * (len(program) + 1)
    if program:
        states[0] = {}
    todo = [0]
    found: dict[int, HazardFinding] = {}
    while todo:
        at = todo.pop()
        if at >= len(program):
            continue
        state = states[at]
        assert state is not None
        one = program[at]
        finding = _judge(one, state)
        if finding is not None and finding.missing > (found[at].missing if at in found else 0):
            found[at] = finding
        after = _step(one, state, extra)
        for successor in _successors(at, one, entries):
            if _join(states, successor, after):
                todo.append(successor)
    return tuple(found[at] for at in sorted(found))


def require_no_hazards(text: str, target: str) -> None:
    """Raise ``HazardError`` naming the first instruction that issues too early."""
    findings = check_hazards(text, target)
    if findings:
        raise HazardError(
            f"{findings[0]}" + (f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""),
            hint="insert_wait_states adds the s_nop that a kernel needs",
        )


# --- reading the text ---------------------------------------------------------------------------


def _parse(text: str) -> tuple[list[_Parsed], dict[str, int]]:
    program: list[_Parsed] = []
    entries: dict[str, int] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.split("//")[0].strip()
        while match := re.match(r"([.\w$]+):\s*", line):
            entries[match[1]] = len(program)
            line = line[match.end() :]
        if not re.match(r"(s|v|ds|buffer|global)_", line):
            continue
        name, _, rest = line.partition(" ")
        operands = tuple(tuple(_registers(part)) for part in _split(rest))
        labels = (rest.strip(),) if name.startswith(("s_branch", "s_cbranch")) else ()
        program.append(_Parsed(number, line, name, operands, labels))
    return program, entries


def _split(rest: str) -> list[str]:
    return [part for part in rest.split(",") if part.strip()]


def _registers(part: str) -> Iterator[Name]:
    for match in _OPERAND.finditer(part):
        if match[1]:
            yield match[1], int(match[2])
        elif match[3]:
            for number in range(int(match[4]), int(match[5]) + 1):
                yield match[3], number
        else:
            yield match[6], 0


def _passes(name: str) -> int:
    match = _MFMA.match(name)
    if match is None:
        return 16
    kind = "16bit" if "16" in match[3] else "fp8"
    return _PASSES.get((int(match[1]), kind), {}).get(int(match[2]), 16)


def _successors(at: int, one: _Parsed, entries: dict[str, int]) -> list[int]:
    if one.name == "s_endpgm":
        return []
    targets = [entries[label] for label in one.labels if label in entries]
    return targets if one.name == "s_branch" else [at + 1, *targets]


def _join(states: list[State | None], at: int, state: State) -> bool:
    """Merge a path's countdowns into a place; whether that changed it."""
    known = states[at]
    if known is None:
        states[at] = dict(state)
        return True
    changed = False
    for danger, left in state.items():
        if known.get(danger, 0) < left:
            known[danger] = left
            changed = True
    return changed


# --- the table ----------------------------------------------------------------------------------


def _is_mfma(name: str) -> bool:
    return name.startswith("v_mfma")


def _is_valu(name: str) -> bool:
    return name.startswith("v_") and not _is_mfma(name)


def _is_memory(name: str) -> bool:
    return name.startswith(("ds_", "buffer_", "global_"))


def _is_dma(one: _Parsed) -> bool:
    return one.name.startswith("buffer_load") and one.text.split()[-1] == "lds"


def _results(one: _Parsed) -> tuple[Name, ...]:
    """What an instruction writes."""
    name = one.name
    if name.startswith(("ds_write", "buffer_store", "global_store")) or _is_dma(one):
        return ()
    if name.startswith(("s_cmp", "s_cbranch", "s_branch", "s_nop", "s_wait", "s_set", "s_barrier")):
        return ()
    return one.operands[0] if one.operands else ()


def _sources(one: _Parsed) -> tuple[Name, ...]:
    first = 1 if _results(one) else 0
    return tuple(name for operand in one.operands[first:] for name in operand)


def _judge(one: _Parsed, state: State) -> HazardFinding | None:
    """The worst danger that this instruction runs into."""
    if not state:
        return None
    worst: tuple[int, Danger] | None = None
    for danger, left in state.items():
        if _runs_into(one, danger) and (worst is None or left > worst[0]):
            worst = (left, danger)
    if worst is None:
        return None
    left, (reason, (letter, number), _) = worst
    register = letter if letter in ("vcc", "m0", "exec") else f"{letter}{number}"
    return HazardFinding(one.line, one.text, left, reason, register)


def _runs_into(one: _Parsed, danger: Danger) -> bool:
    reason, register, whole = danger
    name = one.name
    if reason == RESULT:
        if _is_mfma(name):
            return register in one.operands[1] or register in one.operands[2]
        vector = _is_valu(name) or _is_memory(name)
        return vector and any(register in operand for operand in one.operands)
    if reason == ADDEND:
        return _is_mfma(name) and register in one.operands[3] and (name, one.operands[3]) != whole
    if reason == SOURCE_C:
        return (_is_valu(name) or _is_memory(name)) and register in _results(one)
    if reason == VALU_TO_MFMA:
        return _is_mfma(name) and register in _sources(one)
    if reason == EXEC_TO_MFMA:
        return _is_mfma(name)
    if reason == M0_TO_DMA:
        return _is_dma(one)
    if reason == SCALAR_TO_MEMORY:
        return name.startswith(("buffer_", "global_")) and register in _sources(one)
    if reason == SCALAR_TO_VALU:
        return _is_valu(name) and register in _sources(one)
    if reason == TO_READLANE:
        return name.startswith("v_readfirstlane") and register in _sources(one)
    return _is_valu(name) and register in _results(one)


def _started(one: _Parsed, extra: int) -> Iterator[tuple[Danger, int]]:
    """The countdowns that an instruction starts."""
    name, results = one.name, _results(one)
    if _is_mfma(name):
        passes = _passes(name)
        for register in results:
            yield (RESULT, register, ()), passes + 3 + extra
            yield (ADDEND, register, (name, results)), passes + 1 + extra
        for register in one.operands[3] if len(one.operands) > 3 else ():
            yield (SOURCE_C, register, ()), passes - 1
    elif _is_valu(name):
        for register in results:
            if register[0] in "va":
                yield (VALU_TO_MFMA, register, ()), 2
                yield (TO_READLANE, register, ()), 1
            elif register[0] == "exec":
                yield (EXEC_TO_MFMA, register, ()), 4
            else:
                yield (SCALAR_TO_MEMORY, register, ()), 5
                yield (SCALAR_TO_VALU, register, ()), 2
    elif name.startswith("buffer_store_dwordx4"):
        for register in one.operands[0]:
            yield (STORE_DATA, register, ()), 1 if one.operands[-1] else 2
    elif name.startswith("s_") and ("m0", 0) in results:
        yield (M0_TO_DMA, ("m0", 0), ()), 1


def _step(one: _Parsed, state: State, extra: int) -> State:
    """Countdowns after the instruction: its own wait states pass, then it starts new ones."""
    states = int(one.text.split()[1], 0) + 1 if one.name == "s_nop" else 1
    after = {danger: left - states for danger, left in state.items() if left > states}
    for danger, left in _started(one, extra):
        if after.get(danger, 0) < left:
            after[danger] = left
    return after

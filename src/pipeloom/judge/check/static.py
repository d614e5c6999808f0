"""Instructions as far as registers go: what each reads, writes, addresses and stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeloom.judge.check.record import WaveTrace, joins_lanes
from pipeloom.judge.emulate.addressing import OFF
from pipeloom.judge.emulate.register_numbers import AGPR, EXEC, M0, SCC, VGPR, register_bits
from pipeloom.judge.emulate.step import MicroOp

EXEC_BITS = register_bits(EXEC, 2)
SCALARS = register_bits(0, VGPR)
SCRATCH = 1 << (AGPR + 256)
"""Scratch memory, as one register more."""
_WIDTHS = {2: ("x2", "b64", "f64", "u64", "i64"), 3: ("x3", "b96"), 4: ("x4", "b128")}
"""Registers of data, by how names end; one otherwise."""
_TWO_SOURCES = ("ds_write2", "ds_wrxchg2", "ds_cmpst", "ds_mskor", "ds_wrap")


@dataclass(frozen=True, slots=True)
class Static:
    """One instruction, as far as registers go."""

    reads: int
    writes: int
    touched: int
    lasting: bool
    """Does something that its registers do not show: memory, a branch, EXEC."""
    whole: bool
    """Ignores EXEC."""
    overwrites: int
    """Registers of which it leaves nothing in the active lanes."""
    branch: bool
    scalar: bool
    """Asks for EXEC only where it names it."""
    saves: int
    """Registers that get what EXEC was."""
    joins: bool
    """Switches lanes on again: EXEC |= registers."""
    local: int
    """Registers that decide which bytes of LDS it touches."""
    place: int
    """Registers that decide which bytes of global memory it touches."""
    stored: int
    """Registers that decide what it stores."""
    indexed: bool = False
    """M0 decides which registers it uses; of a step of a path those that it did are known."""


def statics(program: Sequence[MicroOp]) -> tuple[Static, ...]:
    """Every instruction of a program."""
    return tuple(_static(step) for step in program)


def path_statics(trace: WaveTrace, program: Sequence[Static]) -> list[Static]:
    """Every step of a path, with the registers that M0 moved it to."""
    steps = [program[at] for at in trace.steps]
    known: dict[int, Static] = {}
    for time, moved in trace.moved.items():
        found = known.get(id(moved))
        if found is None:
            one = _static(moved)
            m0 = 1 << M0
            found = replace(one, reads=one.reads | m0, touched=one.touched | m0, indexed=True)
            known[id(moved)] = found
        steps[time] = found
    return steps


def _static(step: MicroOp) -> Static:
    one = step.instruction
    name = one.name
    reads, writes, overwrites = step.reads, step.writes, step.writes & ~step.keeps
    indexed = step.touched & ~(reads | writes)
    if indexed:
        # Which registers it means is a value of M0: any of them.
        reads, writes, overwrites = reads | indexed, writes | indexed, 0
    scratch = one.encoding == "SCRATCH"
    local, place, stored = _memory(step)
    return Static(
        reads | SCRATCH * (scratch and bool(writes)),
        writes | SCRATCH * (scratch and not writes),
        step.touched,
        not writes
        or "atomic" in name
        or "_rtn" in name
        or bool(writes & EXEC_BITS)
        or name.startswith(("s_setreg", "s_set_gpr")),
        step.whole_wave,
        overwrites,
        name.startswith(("s_cbranch", "s_setpc", "s_swappc", "s_setvskip")),
        one.encoding.startswith("SOP"),
        writes & ~EXEC_BITS & ~(1 << SCC) if name.endswith("_saveexec_b64") else 0,
        joins_lanes(one) is not None,
        local,
        place,
        stored,
    )


def _memory(step: MicroOp) -> tuple[int, int, int]:
    """Registers of (the address in LDS, that in global memory, what is stored)."""
    one, fields = step.instruction, step.instruction.fields
    scalars = step.reads & SCALARS & ~EXEC_BITS
    if one.encoding == "DS":
        if "permute" in one.name or "swizzle" in one.name or "addr" not in fields:
            return 0, 0, 0
        stored = 0
        if not one.name.startswith("ds_read"):
            names = ("data0", "data1") if one.name.startswith(_TWO_SOURCES) else ("data0",)
            stored = _data(step, *names)
        return 1 << (VGPR + fields["addr"]), 0, stored
    if one.encoding == "SMEM":
        return 0, scalars, scalars
    if one.encoding == "MUBUF":
        count, row = fields["offen"] + fields["idxen"], fields["vaddr"]
    elif one.encoding in ("GLOBAL", "FLAT"):
        count = 2 if one.encoding == "FLAT" or fields["saddr"] == OFF else 1
        row = fields["addr"]
    else:
        return 0, 0, 0
    place = scalars & ~(1 << M0) | register_bits(VGPR + row, count)
    if step.reads >> M0 & 1:
        return 1 << M0, place, place
    if "_store" not in one.name and "_atomic" not in one.name:
        return 0, place, 0
    return 0, place, _data(step, "vdata" if one.encoding == "MUBUF" else "data")


def _data(step: MicroOp, *names: str) -> int:
    """The registers that a store, or an atomic, takes its data from."""
    one = step.instruction
    offset = AGPR if one.fields.get("acc") else VGPR
    found = 0
    for name in names:
        found |= register_bits(offset + one.fields[name], _words(one.name))
    return step.reads & found


def _words(name: str) -> int:
    words = next((n for n, parts in _WIDTHS.items() if name.endswith(parts)), 1)
    return 2 * words if "cmpswap" in name else words


def lanes_of_path(trace: WaveTrace) -> list[int]:
    """EXEC at every time."""
    result: list[int] = []
    starts = [*(start for start, _ in trace.masks), len(trace.steps)]
    for number, (start, mask) in enumerate(trace.masks):
        result += [mask] * (starts[number + 1] - start)
    return result

"""Registers along a wave's path: who needs a load, which loads reach nothing, what branches ask.

All of it follows from the path alone, whatever the waits are; waves on equal paths share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.judge.check.pairs import Conflict
from pipeloom.judge.check.record import WaveTrace
from pipeloom.judge.emulate.addressing import OFF
from pipeloom.judge.emulate.pending import Counter
from pipeloom.judge.emulate.registers import (
    ALL_LANES,
    EXEC,
    M0,
    VGPR,
    each_register,
    register_bits,
)
from pipeloom.judge.emulate.step import Step

_EXEC_BITS = register_bits(EXEC, 2)
_SCALARS = register_bits(0, VGPR)
_PARTIAL = ("d16", "writelane", "mixlo", "mixhi", "_hi_", "movrel", "swap", "cvt_sr")
"""In names of instructions that may leave part of their result as it was."""
_DST_SELECT = 8


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
    clean: bool
    """Overwrites all of its result in the active lanes."""
    branch: bool
    restores: bool
    """May switch lanes on again that were off."""
    address: int
    """Registers that decide which bytes of LDS it touches."""
    pointer: int
    """The same for global memory."""
    stores: bool
    """Whether it writes global memory."""


def statics(program: Sequence[Step]) -> tuple[Static, ...]:
    """Every instruction of a program."""
    return tuple(_static(step) for step in program)


def _static(step: Step) -> Static:
    one = step.instruction
    fields = one.fields
    partial = any(part in one.name for part in _PARTIAL) or one.variant.startswith(("DPP", "SDWA"))
    partial |= bool(fields.get("opsel", 0) & _DST_SELECT)
    address = 0
    if one.encoding == "DS" and "addr" in fields:
        address = 1 << (VGPR + fields["addr"])
    elif step.reads >> M0 & 1:
        address = 1 << M0
    return Static(
        step.reads,
        step.writes,
        step.touched,
        not step.writes
        or "atomic" in one.name
        or "_rtn" in one.name
        or bool(step.writes & _EXEC_BITS)
        or one.name.startswith(("s_setreg", "s_set_gpr")),
        step.whole_wave,
        not partial,
        one.name.startswith(("s_cbranch", "s_setpc", "s_swappc")),
        bool(step.writes & _EXEC_BITS) and one.name in ("s_or_b64", "s_mov_b64"),
        address,
        *_global(step),
    )


def _global(step: Step) -> tuple[int, bool]:
    """Registers that decide which bytes of global memory an instruction touches; if it writes."""
    one = step.instruction
    fields = one.fields
    pointer = step.reads & _SCALARS
    if one.encoding == "MUBUF":
        pointer |= register_bits(VGPR + fields["vaddr"], fields["offen"] + fields["idxen"])
    elif one.encoding in ("GLOBAL", "FLAT"):
        whole = one.encoding == "FLAT" or fields["saddr"] == OFF
        pointer |= register_bits(VGPR + fields["addr"], 1 + whole)
    else:
        return (pointer, False) if one.encoding == "SMEM" else (0, False)
    return pointer, "_store_" in one.name or "_atomic_" in one.name


@dataclass(frozen=True, slots=True)
class Flow:
    """What a path says about its registers.

    ``needs`` are rows (time of a load, time of the first step that needs it, kind, register);
    ``dead`` the times of loads whose result reaches no store, no address and no branch.
    ``data_branches`` and ``data_addresses`` are times at which a branch, or an LDS address, depends
    on what was loaded from memory other than the arguments.
    """

    needs: tuple[tuple[int, int, int, int], ...]
    dead: frozenset[int]
    data_branches: tuple[int, ...]
    data_addresses: tuple[int, ...]


class FlowReader:
    """Reads paths; equal ones once."""

    def __init__(self, program: Sequence[Step]) -> None:
        self.statics = statics(program)
        self._known: dict[tuple[bytes, tuple[tuple[int, int], ...], frozenset[int]], Flow] = {}

    def read(self, trace: WaveTrace) -> Flow:
        """The flow of one wave."""
        path = trace.path()
        key = path.tobytes(), tuple(trace.masks), frozenset(trace.foreign)
        found = self._known.get(key)
        if found is None:
            steps = [self.statics[at] for at in trace.steps]
            lanes = lanes_of_path(trace)
            branches, addresses = _data(steps, lanes, trace)
            found = self._known[key] = Flow(
                tuple(_needs(steps, lanes, trace)), _dead(steps, lanes, trace), branches, addresses
            )
        return found


def lanes_of_path(trace: WaveTrace) -> list[int]:
    """EXEC at every time."""
    result: list[int] = []
    starts = [*(start for start, _ in trace.masks), len(trace.steps)]
    for number, (start, mask) in enumerate(trace.masks):
        result += [mask] * (starts[number + 1] - start)
    return result


def _needs(
    steps: list[Static], lanes: list[int], trace: WaveTrace
) -> list[tuple[int, int, int, int]]:
    """For every load, the first step that reads or writes one of its registers."""
    loads: dict[int, list[tuple[Counter, int, int]]] = {}
    for time, counter, registers, active in trace.loads:
        loads.setdefault(time, []).append((counter, registers, active))
    waiting: dict[int, tuple[int, Counter, int]] = {}
    bits = 0
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for time, step in enumerate(steps):
        hit = step.touched & bits
        here = loads.get(time)
        for register in each_register(hit):
            first, counter, active = waiting[register]
            reads = bool(step.reads >> register & 1)
            in_order = here and not reads and counter is not Counter.SMEM
            if in_order and any(c is counter and r >> register & 1 for c, r, _ in here or ()):
                continue
            mine = 1 if register < VGPR else ALL_LANES if step.whole else lanes[time]
            if not mine & active:
                continue
            kind = Conflict.REGISTER_READ if reads else Conflict.REGISTER_WRITE
            found.setdefault((first, time), (int(kind), register))
            del waiting[register]
            bits &= ~(1 << register)
        for counter, registers, active in here or ():
            bits |= registers
            for register in each_register(registers):
                waiting[register] = time, counter, active
    return [(first, second, kind, register) for (first, second), (kind, register) in found.items()]


def _dead(steps: list[Static], lanes: list[int], trace: WaveTrace) -> frozenset[int]:
    """Loads whose registers nothing lasting depends on, backwards from the end."""
    loads = {time for time, _, _, _ in trace.loads}
    live = _EXEC_BITS
    dead = set()
    for time in range(len(steps) - 1, -1, -1):
        step = steps[time]
        if not step.lasting and not step.writes & live:
            if time in loads:
                dead.add(time)
            continue
        if step.clean:
            if step.whole or lanes[time] == ALL_LANES:
                live &= ~step.writes
            else:
                live &= ~(step.writes & _SCALARS)
        live |= step.reads | _EXEC_BITS
    return frozenset(dead)


def _data(
    steps: list[Static], lanes: list[int], trace: WaveTrace
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Branches and LDS addresses that depend on loaded data."""
    loads = {time for time, _, _, _ in trace.loads}
    sources = trace.foreign | trace.reads_lds
    tainted = 0
    branches, addresses = [], []
    for time, step in enumerate(steps):
        if step.branch and step.reads & tainted:
            branches.append(time)
        if step.address & tainted:
            addresses.append(time)
        if not step.writes:
            continue
        if time in loads:
            from_data = time in sources or bool(step.reads & tainted)
        else:
            from_data = bool((step.reads | _EXEC_BITS) & tainted)
        if step.restores and lanes[min(time + 1, len(lanes) - 1)] == lanes[0]:
            # Structured control flow is over: all lanes are on again, whatever the data.
            tainted &= ~_EXEC_BITS
        elif from_data:
            tainted |= step.writes
        elif step.clean:
            every = step.whole or lanes[time] == ALL_LANES
            tainted &= ~(step.writes if every else step.writes & _SCALARS)
    return tuple(branches), tuple(addresses)

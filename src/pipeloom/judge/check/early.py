"""What missing wait states come to: the second instruction acts before the first one has.

The emulator does not time pipelines. But an instruction that issues too early reads what was there
before, or is overtaken, as if it stood before the other; so the kernel is run with the two in that
order. Both must lie in one run of straight code, and nothing between them may depend on the one
that moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeloom.judge.emulate import CodeKernel, WaitHazard
from pipeloom.judge.emulate.register_numbers import each_register, register_name
from pipeloom.judge.emulate.step import MicroOp

MOST_BETWEEN = 24
"""Instructions between the two; no rule asks for more wait states."""


def issued_early(
    kernel: CodeKernel, program: Sequence[MicroOp], hazard: WaitHazard
) -> tuple[CodeKernel, int] | None:
    """The kernel with the two in the other order, and the pc of the first; None where they stay."""
    place = next((n for n, s in enumerate(program) if s.instruction.pc == hazard.pc), None)
    start = None if place is None else _first(program, place, hazard.register)
    if place is None or start is None:
        return None
    first, second = program[start], program[place]
    between = program[start + 1 : place]
    if not any(_depend(first, one) for one in between):
        order = [*between, second, first]
    elif not any(_depend(one, second) for one in between):
        order = [second, first, *between]
    else:
        return None
    code = bytearray(kernel.code)
    parts = [kernel.code[s.instruction.pc : s.instruction.pc + s.instruction.size] for s in order]
    moved = b"".join(parts)
    code[first.instruction.pc : first.instruction.pc + len(moved)] = moved
    return replace(kernel, code=bytes(code)), first.instruction.pc


def _first(program: Sequence[MicroOp], place: int, register: str) -> int | None:
    """The last instruction before ``place`` that clashes with it in ``register``."""
    targets = {step.instruction.target for step in program}
    second = program[place]
    number = next((r for r in each_register(second.touched) if register_name(r) == register), None)
    if number is None:
        return None
    bit = 1 << number
    for at in range(place - 1, max(place - MOST_BETWEEN, 0) - 1, -1):
        if program[at + 1].instruction.pc in targets or program[at].instruction.target is not None:
            return None
        if program[at].writes & bit or program[at].reads & second.writes & bit:
            return at
    return None


def _depend(first: MicroOp, second: MicroOp) -> bool:
    clash = first.writes & second.touched | first.reads & second.writes
    return bool(clash)

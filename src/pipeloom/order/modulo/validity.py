"""Is this modulo schedule valid? Asked of every result, by code the solver does not share.

The rules are those of ``ModuloProblem``, applied cycle by cycle: every held cycle and every live
cycle is counted into its slot modulo II. Slower than the solver's arithmetic, and hard to get
wrong in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.order.modulo.problem import ModuloProblem


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: ``kind`` is shape, edge, unit, registers, buffers, lds or stages."""

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def check_modulo(problem: ModuloProblem, ii: int, starts: Sequence[int]) -> list[Violation]:
    """Every rule of ``problem`` that ``starts`` breaks at ``ii``; empty when it is valid."""
    if type(ii) is not int or ii < 1:
        return [Violation("shape", f"II is {ii!r}, not a positive integer")]
    if len(starts) != len(problem.ops) or any(type(start) is not int for start in starts):
        return [Violation("shape", f"{len(starts)} starts for {len(problem.ops)} ops")]
    found: list[Violation] = []
    names = [op.name for op in problem.ops]
    for edge in problem.edges:
        ready = starts[edge.src] + edge.latency - edge.distance * ii
        if starts[edge.dst] < ready:
            found.append(
                Violation(
                    "edge",
                    f"{names[edge.dst]} starts at {starts[edge.dst]}, before {names[edge.src]} "
                    f"lets it at {ready}",
                )
            )
    for unit in problem.units:
        if unit.capacity is None:
            continue
        held: Counter[int] = Counter()
        for op, start in zip(problem.ops, starts, strict=True):
            for use in op.uses:
                if use.unit == unit.name:
                    first = start + use.offset
                    held.update(cycle % ii for cycle in range(first, first + use.occupancy))
        for slot in sorted(held):
            if held[slot] > unit.capacity:
                found.append(
                    Violation(
                        "unit",
                        f"{unit.name} is held {held[slot]} times in slot {slot}, "
                        f"capacity {unit.capacity}",
                    )
                )
    found += _check_registers(problem, ii, starts)
    found += _check_buffers(problem, ii, starts)
    limit = problem.budget.stages
    span = max(starts) - min(starts)
    if limit is not None and span >= limit * ii:
        found.append(
            Violation("stages", f"starts span {span} cycles, {limit} stages of {ii} allow less")
        )
    return found


def _check_registers(problem: ModuloProblem, ii: int, starts: Sequence[int]) -> list[Violation]:
    limit = problem.budget.registers
    if limit is None:
        return []
    live: Counter[int] = Counter()
    for value in problem.values:
        born = starts[value.op] + value.delay
        for cycle in range(
            born, max(starts[r.op] + r.distance * ii + r.hold for r in value.readers)
        ):
            live[cycle % ii] += value.registers
    return [
        Violation("registers", f"{live[slot]} registers live in slot {slot}, limit {limit}")
        for slot in sorted(live)
        if live[slot] > limit
    ]


def _check_buffers(problem: ModuloProblem, ii: int, starts: Sequence[int]) -> list[Violation]:
    found: list[Violation] = []
    total = 0
    for channel in problem.channels:
        taken = min(starts[op] for op in channel.fills)
        returned = max(starts[r.op] + r.distance * ii + r.hold for r in channel.readers)
        buffers = 1
        while taken + buffers * ii < returned:
            buffers += 1
        total += buffers * channel.bytes
        if channel.max_buffers is not None and buffers > channel.max_buffers:
            found.append(
                Violation(
                    "buffers",
                    f"{channel.name} needs {buffers} buffers, at most {channel.max_buffers}",
                )
            )
    limit = problem.budget.lds_bytes
    if limit is not None and total > limit:
        found.append(Violation("lds", f"buffers take {total} bytes, limit {limit}"))
    return found

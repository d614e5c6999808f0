"""What a modulo schedule uses: stages, buffers, registers, and who holds which unit when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeloom.order.modulo.parts import Channel, Value
from pipeloom.order.modulo.problem import ModuloProblem


@dataclass(frozen=True, slots=True)
class UnitTable:
    """One unit's row of the modulo reservation table."""

    unit: str
    """The unit's name."""
    capacity: int | None
    """How many ops may hold it at once."""
    slots: tuple[tuple[int, ...], ...]
    """For each slot modulo II the ops that hold the unit, by index; one whose occupancy laps the II
    appears as often as it holds."""

    @property
    def busy(self) -> int:
        """Held cycles per II, over all copies of the unit."""
        return sum(len(slot) for slot in self.slots)


@dataclass(frozen=True, slots=True)
class Usage:
    """Stages, buffers per channel, LDS bytes and the register peak of one schedule."""

    stages: int
    """Iterations that overlap."""
    buffers: tuple[int, ...]
    """Buffers of each channel."""
    lds_bytes: int
    """Their bytes."""
    register_peak: int
    """The most registers live in one cycle."""


def normalised(starts: Sequence[int]) -> tuple[int, ...]:
    """The same schedule with its first op at cycle 0."""
    first = min(starts)
    return tuple(start - first for start in starts)


def lifetime(held: Value | Channel, ii: int, starts: Sequence[int]) -> tuple[int, int]:
    """The half-open cycles during which iteration 0 holds its registers, or its buffer."""
    taken = min(starts[op] for op in held.fills) + held.delay
    freed = max(starts[r.op] + r.distance * ii + r.hold for r in held.readers)
    return taken, max(taken, freed)


def copies(span: tuple[int, int], ii: int) -> int:
    """How many rotating copies a lifetime needs so that no iteration overwrites another."""
    return max(1, -(-(span[1] - span[0]) // ii))


def measure(problem: ModuloProblem, ii: int, starts: Sequence[int]) -> Usage:
    """Everything the budgets speak of, for any starts."""
    span = max(starts) - min(starts)
    buffers = tuple(copies(lifetime(channel, ii, starts), ii) for channel in problem.channels)
    lds = sum(n * channel.bytes for n, channel in zip(buffers, problem.channels, strict=True))
    return Usage(span // ii + 1, buffers, lds, register_peak(problem, ii, starts))


def register_peak(problem: ModuloProblem, ii: int, starts: Sequence[int]) -> int:
    """The most registers live in any slot; lifetimes change only at their ends."""
    base = 0
    change: dict[int, int] = {}
    for value in problem.values:
        born, freed = lifetime(value, ii, starts)
        laps, rest = divmod(freed - born, ii)
        base += laps * value.registers
        if rest:
            first, last = born % ii, freed % ii
            change[first] = change.get(first, 0) + value.registers
            change[last] = change.get(last, 0) - value.registers
            if last < first:
                base += value.registers
    live = base
    peak = 0 if 0 in change else base
    for slot in sorted(change):
        live += change[slot]
        peak = max(peak, live)
    return peak


def fits_budget(problem: ModuloProblem, usage: Usage) -> bool:
    """Whether ``usage`` stays within every limit of the problem."""
    budget = problem.budget
    return (
        (budget.stages is None or usage.stages <= budget.stages)
        and (budget.lds_bytes is None or usage.lds_bytes <= budget.lds_bytes)
        and (budget.registers is None or usage.register_peak <= budget.registers)
        and all(
            channel.max_buffers is None or n <= channel.max_buffers
            for n, channel in zip(usage.buffers, problem.channels, strict=True)
        )
    )


def unit_tables(problem: ModuloProblem, ii: int, starts: Sequence[int]) -> tuple[UnitTable, ...]:
    """The modulo reservation table, one row per unit that is used."""
    rows: dict[str, dict[int, tuple[int, ...]]] = {}
    for index, op in enumerate(problem.ops):
        for use in op.uses:
            row = rows.setdefault(use.unit, {})
            first = starts[index] + use.offset
            for cycle in range(first, first + use.occupancy):
                row[cycle % ii] = (*row.get(cycle % ii, ()), index)
    return tuple(
        UnitTable(
            unit.name, unit.capacity, tuple(rows[unit.name].get(slot, ()) for slot in range(ii))
        )
        for unit in problem.units
        if unit.name in rows
    )

"""A loop as a table that others can use: exported, lifted again, judged and simulated."""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.cms import Table, export_table, lift_table, unlike_a_table
from pipeloom.drive.subjects import Subject
from pipeloom.judge.simulate.issued import simulate
from pipeloom.judge.verify import Verdict, verify
from pipeloom.program import Program

TRIPS = 8


@dataclass(frozen=True, slots=True)
class Exported:
    """A table with its verdict; cycles per K tile of it and of the program that it is made of.

    ``placed`` says why it has slots of its own; nothing where it keeps those of the program.
    """

    table: Table
    verdict: Verdict
    cycles: float
    program_cycles: float
    placed: str


def export(subject: Subject, name: str) -> Exported:
    """The table of what is named; ``SpecError`` where no table can say it."""
    program = subject.program()
    table = export_table(program, name=name)
    lifted = lift_table(table)
    return Exported(
        table=table,
        verdict=verify(lifted),
        cycles=steady_cycles(lifted),
        program_cycles=steady_cycles(program),
        placed=unlike_a_table(program),
    )


def steady_cycles(program: Program) -> float:
    """Modelled cycles of one K tile."""
    least = program.iterations.at(program.min_trips)
    trace = simulate(program, iterations=least + TRIPS * program.step)
    return trace.steady_cycles_per_iteration / program.step

"""A loop as a table that others can use: exported, lifted again, judged and simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from pipeloom.cms import (
    Table,
    check_exportable,
    export_table,
    left_out,
    lift_table,
    unlike_a_table,
)
from pipeloom.drive.loop_cycles import steady_cycles
from pipeloom.drive.loops import LoopSource
from pipeloom.drive.opening import Opened
from pipeloom.judge.verify import Verdict, verify

TRIPS = 8


@dataclass(frozen=True, slots=True)
class Exported:
    """A table with its verdict; cycles per K tile of it and of the program that it is made of.

    ``placed`` says why it has slots of its own; nothing where it keeps those of the program.
    ``left_out`` names what the program does before and behind the loop, which no table says.
    """

    table: Table
    verdict: Verdict
    cycles: float
    program_cycles: float
    placed: str
    left_out: str


def export(opened: Opened, name: str | None = None) -> Exported:
    """The table of what is named; ``SpecError`` where no table can say it.

    A table comes back as it is, but for its name.
    """
    given, origin = opened.table, opened.origin
    if isinstance(origin, LoopSource):
        waves = prod(origin.waves.values()) if isinstance(origin.waves, Mapping) else origin.waves
        check_exportable(origin.loop.meaning, origin.target, waves)
    program = opened.program()
    name = name or program.name
    table = replace(given, id=name) if given else export_table(program, name=name)
    lifted = lift_table(table)
    return Exported(
        table=table,
        verdict=verify(lifted),
        cycles=steady_cycles(lifted, TRIPS),
        program_cycles=steady_cycles(program, TRIPS),
        placed="" if given else unlike_a_table(program),
        left_out=left_out(program.meaning),
    )

"""Programs of a user's own: ``my.py:name``, a loop or a program, or a program's JSON file.

A loop is pipelined for the chip and the waves that are asked for; a program is taken as it is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pipeloom.cms import lift_table, read_table
from pipeloom.declare.loop import Loop
from pipeloom.drive.declared import load_declaration, names_declaration
from pipeloom.drive.pipeline import pipeline
from pipeloom.errors import SpecError
from pipeloom.machine.chips import target_for
from pipeloom.program import VOCABULARY, Program, Vocabulary

WAVES = 4
ANY_CHIP = "gfx950"


@dataclass(frozen=True)
class OwnProgram:
    """A program, and the ops that it is made of."""

    program: Program
    ops: Vocabulary = VOCABULARY


def own_program(what: str, arch: str | None = None, waves: int | None = None) -> OwnProgram | None:
    """The program that ``what`` declares; None where it is no loop and no program."""
    if what.endswith(".json"):
        return _from_file(Path(what))
    if not names_declaration(what):
        return None
    made = load_declaration(what)
    if isinstance(made, Loop):
        target = target_for(arch or ANY_CHIP)
        return OwnProgram(pipeline(made, target, WAVES if waves is None else waves), made.ops)
    return OwnProgram(_unchanged(made, arch, waves)) if isinstance(made, Program) else None


def _from_file(path: Path) -> OwnProgram | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # whoever reads sources says what is wrong with it
    if isinstance(data, dict) and {"schedule", "num_mfma"} <= data.keys():
        return OwnProgram(lift_table(read_table(data)))
    if not isinstance(data, dict) or not {"meaning", "groups"} <= data.keys():
        return None
    return OwnProgram(Program.from_dict(data))


def _unchanged(program: Program, arch: str | None, waves: int | None) -> Program:
    for option, given, has in (
        ("arch", arch, program.target.arch),
        ("waves", waves, program.waves),
    ):
        if given is not None and given != has:
            raise SpecError(
                f"{program.name} is a program for {has}, which --{option} {given} cannot change",
                hint=f"drop --{option}, or name the loop that it was made of",
                field=option,
            )
    return program

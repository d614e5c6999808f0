"""Kernels of loops for every size along what they run over.

A declaration that masks what lies past the end has any size by itself; one that adds up what it
streams may begin with zeros, which the writer's ``Placing`` says. Others compute whole trips.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from pipeloom.drive.margins import verdict_of
from pipeloom.program import VOCABULARY, Program, Vocabulary
from pipeloom.write import EmitError, EmittedKernel, Placing, emit_program


def emit_any_size(
    program: Program, *, ops: Vocabulary = VOCABULARY, **options: Any
) -> EmittedKernel:
    """The kernel of a program; of a loop that adds up, one for every size, where it fits.

    The loop's trips are the same; a copy of the first one leaves out what lies before the arrays.
    What meets in simulation is a RACE here, too, whatever may be written of TIMING.
    """
    options = {"judge": partial(verdict_of, ops=ops), "ops": ops} | options
    meaning = program.meaning
    of_loop = program.provenance.source.startswith("loop ")
    if of_loop and not meaning.ragged and meaning.adds_up:
        with suppress(EmitError):
            return emit_program(program, placing=Placing(ragged=True), **options)
    return emit_program(program, **options)

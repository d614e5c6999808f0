"""Who writes machine code for which instruction set.

    emitted = emit_program(program)      # by the writer of program.target.isa

A writer of another instruction set registers itself by name, and targets name it:

    register_writer("acme", Writer(emit=..., occupied=...))
    emit_program(pipeline(loop, replace(GFX950, isa="acme"), 4))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipeloom.checks import check_known
from pipeloom.collecting import rarely_collected
from pipeloom.machine.cdna import CDNA
from pipeloom.machine.occupancy import Resources
from pipeloom.machine.target import Target
from pipeloom.program import Program
from pipeloom.write.faults import EmitError
from pipeloom.write.kernel import EmittedKernel
from pipeloom.write.lower.emit import emit_cdna, occupied_cdna


@dataclass(frozen=True, slots=True)
class Writer:
    """Programs to machine code of one instruction set."""

    emit: Callable[..., EmittedKernel]
    """The kernel of a program whose verdict allows it, with the options of ``emit_program``."""
    occupied: Callable[..., Resources]
    """The registers and shared memory of a program's kernel, with ``ops`` and ``placing``; nothing
    is judged. Raises ``EmitError`` for what ``emit`` cannot write."""


_WRITERS = {CDNA: Writer(emit_cdna, occupied_cdna)}


def register_writer(isa: str, writer: Writer) -> None:
    """Let a writer write for all targets with this ``isa``; a name means one writer."""
    if _WRITERS.setdefault(isa, writer) != writer:
        raise EmitError(
            f"instruction set {isa!r} has a writer already",
            hint="give the instruction set a name of its own",
            field="isa",
        )


def emit_program(program: Program, **options: Any) -> EmittedKernel:
    """The kernel of a program; raises ``EmitError`` for what it cannot be.

    Args:
        program: What to write, for its own target.
        **options: ``judge`` (``verify``), ``ops`` (every op of the program, with its lowering),
            ``name`` (the kernel's symbol), ``allow_timing``, ``placing`` (what launches may ask of
            it beyond whole trips of one problem) and ``timed`` (with clocks of each wave).
    """
    with rarely_collected():
        return _writer(program.target).emit(program, **options)


def occupied(program: Program, **options: Any) -> Resources:
    """Registers and LDS of a program's kernel. Nothing is written, so its verdict is not asked.

    Raises ``EmitError`` for what ``emit_program`` cannot write, whatever its verdict.
    """
    with rarely_collected():
        return _writer(program.target).occupied(program, **options)


def _writer(target: Target) -> Writer:
    said = f"nobody writes {target.isa!r}, the instruction set of {target.arch}"
    check_known(target.isa, _WRITERS, said, "isa", EmitError)
    return _WRITERS[target.isa]

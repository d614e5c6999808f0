"""What a header says of a program: its tile, how it was synchronised, what limits it.

256x256x64 bf16                                 the tile of one workgroup and iteration
q 128, keys 64 in bf16                          the same of other dimensions than m, n and k
waits derived, barriers kept; 4 loads moved     what synchronisation did
"""

from __future__ import annotations

from pipeloom.program import Program, SyncMethod
from pipeloom.show.step_rows import tiles_text

_WAITING = "waiting: "
_UNITS = {
    "matrix": "matrix unit",
    "valu issue": "VALU issue",
    "lds": "LDS",
    "issue": "instruction issue",
}
_SYNCHRONISED = {
    SyncMethod.GIVEN: "",
    SyncMethod.REFERENCE: "",
    SyncMethod.PROVEN: "waits and barriers derived",
    SyncMethod.REPAIRED: "waits derived, barriers kept",
}


def tile_text(program: Program) -> str:
    """The sizes of one workgroup's tile and of one iteration, and the types of the inputs."""
    meaning = program.meaning
    sizes = meaning.tile
    dims = [d for d in dict.fromkeys((*meaning.grid, meaning.over, *sizes)) if d in sizes]
    types = dict.fromkeys(str(node.type.dtype) for node in meaning.inputs)
    if dims[:3] == ["m", "n", "k"]:
        return f"{'x'.join(str(sizes[d]) for d in dims[:3])} {', '.join(types)}"
    return f"{', '.join(f'{d} {sizes[d]}' for d in dims)} in {', '.join(types)}"


def limit_text(limiting_unit: str) -> tuple[str, str]:
    """What ``Trace.limiting_unit`` found, as a title and a value.

    ``("limited by", "matrix unit")``, or ``("held up by", "the LDS queue is full")`` where no unit
    is busy enough to be the limit.
    """
    if limiting_unit.startswith(_WAITING):
        return "held up by", limiting_unit.removeprefix(_WAITING)
    return "limited by", _UNITS.get(limiting_unit, limiting_unit)


def no_loop_text(program: Program) -> str:
    """What is said in the place of figures per iteration where there is no iteration."""
    least = program.iterations.at(dict.fromkeys(program.min_trips, 0))
    return f"the loop does not run for {tiles_text(program, least)}"


def sync_text(program: Program) -> str:
    """How waits and barriers came about; empty where they are the schedule's own."""
    parts = (_SYNCHRONISED[program.provenance.synchronised], changes_text(program))
    return "; ".join(filter(None, parts))


def changes_text(program: Program) -> str:
    """``4 loads moved``: what synchronising changed besides waits and barriers, if anything."""
    found = program.provenance
    step = "load" if found.synchronised is SyncMethod.REPAIRED else "step"
    changes = ((len(found.moved), step, "moved"), (found.barriers_added, "barrier", "added"))
    return "; ".join(f"{n} {what}{'s' * (n > 1)} {done}" for n, what, done in changes if n)

"""What a header says of a schedule: its tile, and how it was synchronised.

256x256x64 bf16                                    the tile it was compiled for
no tile: 4 + 4 vmcnt entries per load              the target profile's counts stand in for one
waits derived, barriers kept; 4 loads moved        what ``synchronize`` did
"""

from __future__ import annotations

from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.ops import Phase

_ELEMENTS = {1: "fp8", 2: "bf16", 4: "f32"}
_WAITING = "waiting: "
_UNITS = {
    "matrix": "matrix unit",
    "valu issue": "VALU issue",
    "lds": "LDS",
    "issue": "instruction issue",
}
_DERIVED = {
    "waits and barriers derived from dependences": "waits and barriers derived",
    "waits derived from dependences, barriers kept": "waits derived, barriers kept",
}


def tile_text(compiled: CompiledSchedule, elements: str | None = None) -> str:
    """The tile, or what stands in for it.

    A shape knows the size of its elements, not their type: ``elements`` says which 16-bit type is
    meant where it is not bf16.
    """
    shape = compiled.geometry
    if shape is not None:
        named = _ELEMENTS.get(shape.elem_bytes, f"{shape.elem_bytes}-byte")
        if elements == "fp16" and shape.elem_bytes == 2:
            named = elements
        return f"{shape.BM}x{shape.BN}x{shape.BK} {named}"
    config = compiled.config
    if config.depth < 2:
        return "no tile: the target profile's counts"
    return f"no tile: {config.vm_per_load_a} + {config.vm_per_load_b} vmcnt entries per load"


def limit_text(limiting_unit: str) -> tuple[str, str]:
    """What ``Trace.limiting_unit`` found, as a title and a value.

    ``("limited by", "matrix unit")``, or ``("held up by", "the LDS queue is full")`` where no unit
    is busy enough to be the limit.
    """
    if limiting_unit.startswith(_WAITING):
        return "held up by", limiting_unit.removeprefix(_WAITING)
    return "limited by", _UNITS.get(limiting_unit, limiting_unit)


def no_loop_text(k_tiles: int) -> str:
    """What is said in the place of figures per iteration where there is no iteration."""
    return f"the loop does not run for {k_tiles} K tile{'' if k_tiles == 1 else 's'}"


def sync_text(compiled: CompiledSchedule) -> str:
    """How waits and barriers came about, from the notes; empty where they are the schedule's."""
    derived = [_DERIVED[note] for note in compiled.notes if note in _DERIVED]
    if not derived:
        return ""
    parts = [derived[-1]]
    changes = [
        change
        for note in compiled.notes
        if note.startswith("reordered: ")
        for change in note.removeprefix("reordered: ").split("; ")
    ]
    moved = [change for change in changes if " moves " in change]
    added = [change for change in changes if "barrier is added" in change]
    if moved:
        loads = all("GLOBAL_LOAD" in change.split(" moves ")[0] for change in moved)
        parts.append(_count(len(moved), "load" if loads else "op") + " moved")
    if added:
        parts.append(_count(len(added), "barrier") + " added")
    return "; ".join(parts)


def changes_text(compiled: CompiledSchedule) -> str:
    """``4 loads moved``: what synchronising changed besides waits and barriers, if anything."""
    return "; ".join(sync_text(compiled).split("; ")[1:])


def unsynchronised_note(compiled: CompiledSchedule) -> str:
    """Of a schedule whose specification states no wait at all, where to get them; else empty."""
    if any(compiled.counts(phase).coalesced_waits for phase in Phase):
        return ""
    return (
        f"note: the specification of {compiled.schedule} leaves its waits to the compiler; "
        "--sync proven derives them"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

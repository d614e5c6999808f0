"""``pipeloom fix``: the same data ops in the same order, with proved waits and barriers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType

from pipeloom.cli.common import (
    add_counter_stall,
    add_json,
    add_source,
    as_options,
    counter_stall_of,
    load_compiled,
    print_json,
    write_file,
)
from pipeloom.cli.tile import add_arch, add_tile, say_untiled, tile_header
from pipeloom.errors import OrderError
from pipeloom.reference.compiled import CompiledSchedule, PhaseCounts, ScheduleEntry
from pipeloom.reference.ops import OpRole, Phase
from pipeloom.reference.resync import synchronize
from pipeloom.reference.verdict import verify
from pipeloom.reference.words import Labels, tile_text

FIX_HINTS: Mapping[str, str] = MappingProxyType(
    {
        "reorder=True applies it": "--reorder applies it",
        "keep_barriers=False, sync='proven'": "without --keep-barriers",
    }
)
"""What a hint of the library says -> what this command calls it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = (
        "Keep the data ops in their order; derive every wait and barrier anew from the "
        "dependences: each wait as loose as soundness permits, no barrier that is not needed. "
        "With --keep-barriers the barriers stay, and only the waits are derived. Prints what "
        "changed and what it costs."
    )
    add_source(parser, compiled=True)
    add_tile(parser)
    add_arch(parser)
    parser.add_argument(
        "--reorder",
        action="store_true",
        help="where no synchronisation can save the order, move the fewest ops (with "
        "--keep-barriers also: add barriers to prologue or epilogue, never to the loop)",
    )
    parser.add_argument(
        "--keep-barriers",
        action="store_true",
        help="keep the barriers where they are, for a schedule whose barriers also set the pace",
    )
    add_counter_stall(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the fixed schedule here")
    parser.add_argument(
        "--force", action="store_true", help="derive anew even what is already PROVED"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Synchronise, write, and report."""
    before = load_compiled(
        argparse.Namespace(
            source=arguments.source,
            settings=arguments.settings,
            tile=arguments.tile,
            arch=arguments.arch,
            arch_derives=True,
        )
    )
    stall = counter_stall_of(arguments)
    verdict_before = verify(before, counter_stall=stall)
    kept = verdict_before.proved and not arguments.force
    after = before if kept else _synchronized(arguments, before)
    if arguments.output:
        write_file(arguments.output, after.to_json())
        say_untiled(after)
    if arguments.json:
        print_json(
            {
                "before": {p.name.lower(): asdict(before.counts(p)) for p in Phase},
                "after": {p.name.lower(): asdict(after.counts(p)) for p in Phase},
                "verdict_before": verdict_before.status.name,
                "verdict_after": verify(after, counter_stall=stall).status.name,
                "changes": list(_changes(before, after)),
                "notes": after.notes,
                "tile": tile_text(before, arguments.tile),
                "unchanged": kept,
            }
        )
        return 0
    print(tile_header(arguments, before))
    if kept:
        print(f"{verdict_before.summary()}\nalready PROVED: left unchanged (--force derives anew)")
        if arguments.output:
            print(f"wrote {arguments.output}")
        return 0
    print(f"before: {verdict_before.summary()}")
    print(f"after:  {verify(after, counter_stall=stall).summary()}\n")
    for phase in Phase:
        print(_cost_line(phase, before.counts(phase), after.counts(phase)))
    print()
    for line in _changes(before, after):
        print(line)
    for note in after.notes[len(before.notes) :]:
        print(f"note: {note}")
    if arguments.output:
        print(f"wrote {arguments.output}")
    return 0


def _synchronized(arguments: argparse.Namespace, before: CompiledSchedule) -> CompiledSchedule:
    try:
        return synchronize(
            before,
            reorder=arguments.reorder,
            keep_barriers=arguments.keep_barriers,
        )
    except OrderError as error:
        raise as_options(error, FIX_HINTS) from error


def _cost_line(phase: Phase, old: PhaseCounts, new: PhaseCounts) -> str:
    waits = f"waits {old.wait_vm + old.wait_lgkm} -> {new.wait_vm + new.wait_lgkm}"
    return f"{phase.name.lower():<9} {waits:<18} barriers {old.barriers} -> {new.barriers}"


def _changes(before: CompiledSchedule, after: CompiledSchedule) -> Iterator[str]:
    """The waits and barriers in front of each data op, where they differ, phase by phase."""
    labels = Labels(before)
    for phase in Phase:
        old, new = _gaps(before.phase(phase), labels), _gaps(after.phase(phase), labels)
        name = phase.name.lower()
        if [op for op, _ in old] != [op for op, _ in new]:
            yield f"{name}: ops moved, now {', '.join(op for op, _ in new)}"
            continue
        for (op, was), (_, now) in zip(old, new, strict=True):
            if was != now:
                yield f"{name}, before {op}: {' '.join(was) or 'nothing'} -> " + (
                    " ".join(now) or "nothing"
                )


def _gaps(entries: Sequence[ScheduleEntry], labels: Labels) -> list[tuple[str, list[str]]]:
    """Each data op with the waits and barriers since the one before it; the end closes the last."""
    gaps: list[tuple[str, list[str]]] = []
    pending: list[str] = []
    for entry in entries:
        if entry.op.role is OpRole.SYNC:
            pending.append(labels.of(entry.op))
        elif entry.op.role is not OpRole.FENCE:
            gaps.append((labels.of(entry.op), pending))
            pending = []
    return [*gaps, ("the end", pending)]

"""Derived loops against hipBLASLt's hand-written ones, tile by tile, under one model.

    python -m evidence.cms_compare [NAME...]

For every table of 16 or 8 bits in the shared data: ``derive`` is given the declaration of the
same tile, depth, type, layout and number of waves; what it finds is emitted, and the emitted
instructions are simulated. After ``SECONDS`` of processor time the best so far is taken. The table
is lifted and simulated with its own scalar instructions. Cycles are those of one K tile in the
steady loop; the bound is what the machine's units allow. What is derived is also exported as a
table, where tables can say it (TN), which is judged and simulated like the one by hand.
"""

from __future__ import annotations

import signal
import sys
import time
from functools import cache
from typing import NamedTuple

from evidence.cms_tables import records
from pipeloom import ScheduleError
from pipeloom.cms import export_table, lift_table, read_table
from pipeloom.cms.lift import WAVES
from pipeloom.declare.kernels import gemm
from pipeloom.declare.loop import Loop
from pipeloom.declare.products import product
from pipeloom.drive.deriving import derive
from pipeloom.drive.exporting import TRIPS
from pipeloom.drive.loop_cycles import steady_cycles
from pipeloom.judge.verify import verify
from pipeloom.machine.chips import target_for
from pipeloom.machine_code import simulate_emitted
from pipeloom.program import Program
from pipeloom.write import emit_program

SECONDS = 40


class Found(NamedTuple):
    """Of a derived loop: cycles per K tile as emitted, the bound and its unit, the verdict; cycles
    and verdict of its table."""

    cycles: float
    bound: int
    unit: str
    verdict: str
    seconds: float
    as_table: str


def row_major(layout: str) -> str:
    """hipBLASLt's letters in ours: its matrices are column-major."""
    return "".join("T" if letter == "N" else "N" for letter in layout)


@cache
def derived(tile: tuple[int, int, int], dtype: str, layout: str) -> Found | str:
    """What is derived of a tile, or why nothing is."""
    target, start = target_for("gfx950"), time.process_time()
    signal.signal(signal.SIGPROF, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        loop = gemm(*tile, dtype) if layout == "TN" else _across(tile, dtype, layout)
        found = derive(loop, target, WAVES)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if found is None:
        return "not woven"
    seconds = time.process_time() - start
    program = found.program
    try:
        emitted = emit_program(program, judge=verify)
    except ScheduleError as error:
        return str(error).partition(";")[0]
    least = program.iterations.at(program.min_trips)
    trace = simulate_emitted(emitted, target, least + TRIPS * program.step)
    cycles = trace.steady_cycles_per_iteration / program.step
    as_table = "" if layout != "TN" else _as_table(program)
    return Found(
        cycles=cycles,
        bound=found.bound,
        unit=found.unit,
        verdict=emitted.status.name,
        seconds=seconds,
        as_table=as_table,
    )


def _across(tile: tuple[int, int, int], dtype: str, layout: str) -> Loop:
    return product(*tile, dtype, layout=row_major(layout))


def _as_table(program: Program) -> str:
    table = lift_table(export_table(program, name="derived"))
    return f"{steady_cycles(table, TRIPS):.0f} {verify(table).status.name}"


def main() -> None:
    """Print the comparison and the mean advantage."""
    gains = []
    print("| table | by hand | derived | advantage % | bound | unit | verdict | as a table | s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for record in records("cms_tables.jsonl"):
        if record["dtype"] not in ("bf16", "fp8"):
            continue
        if sys.argv[1:] and not any(name in record["id"] for name in sys.argv[1:]):
            continue
        table = read_table(record)
        try:
            hand = steady_cycles(lift_table(table), TRIPS)
        except ScheduleError as error:
            print(f"| {table.id} | {str(error).splitlines()[0]} | | | | | | | |", flush=True)
            continue
        found = derived(table.tile, table.dtype, record["layout"])
        row = f"| {table.id} | {hand:.0f} |"
        if isinstance(found, str):
            print(row, f"{found} | | | | | | |", flush=True)
            continue
        gains.append(hand / found.cycles - 1)
        print(
            row,
            f"{found.cycles:.0f} | {100 * gains[-1]:+.1f} | {found.bound} | {found.unit} |",
            f"{found.verdict} | {found.as_table} |",
            f"{found.seconds:.0f} |",
            flush=True,
        )
    if gains:
        mean, least = 100 * sum(gains) / len(gains), 100 * min(gains)
        print(f"\n{len(gains)} tables, mean advantage {mean:+.1f} %, least {least:+.1f} %")


if __name__ == "__main__":
    main()

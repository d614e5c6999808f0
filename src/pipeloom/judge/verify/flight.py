"""Reads of registers whose load is in flight, whether or not an output depends on them.

What an output depends on is asked of the proof; a step that nothing demands is not, and may make
what it likes of what it finds. Registers of a load in flight are the exception: they are not
defined, a machine may say so (the emulator does), and a wait or the whole step is wrong. Which wait
retires which load depends on the program alone, so a walk tells.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeloom.judge.verify.blame import Hazard
from pipeloom.judge.verify.dated_run import Moment
from pipeloom.judge.verify.deeds import Key
from pipeloom.judge.verify.findings import FindingKind
from pipeloom.judge.verify.run_tables import RunTables
from pipeloom.program import Work
from pipeloom.program.tiles import overlap


def reads_in_flight(run: RunTables) -> Iterator[Hazard]:
    """A hazard for every step that reads such registers, in the first wave that does."""
    for walk in run.walks:
        flying: dict[Key, list[Moment]] = {}
        waves = walk.group.waves
        for moment in walk.moments:
            step = moment.step
            if not isinstance(step, Work):
                continue
            read, loads = run.plans.registers(moment.group, step)
            for key in read & flying.keys():
                late = [load for load in flying.pop(key) if load.retire > moment.issue]
                if late:
                    flying[key] = late
                    found = (_met(run, moment, load, key, w) for load in late for w in waves)
                    yield from [hazard for hazard in found if hazard is not None][:1]
            for key in loads:
                flying.setdefault(key, []).append(moment)


def _met(run: RunTables, read: Moment, load: Moment, key: Key, wave: int) -> Hazard | None:
    filled = [touch.box for touch, _ in run.deed(load, wave).targets if touch.key == key]
    taken = [touch.box for touch in run.deed(read, wave).of_registers if touch.key == key]
    if not any(overlap(one, other) for one in filled for other in taken):
        return None
    name, copy = key
    where = f"registers {name}" + f"[{copy}]" * (run.program.resource(name).copies > 1)
    seen = "what a load in flight leaves there"
    return Hazard(FindingKind.REGISTER, load, wave, read, wave, where, "", seen)

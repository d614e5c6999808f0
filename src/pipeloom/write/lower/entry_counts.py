"""Whether a step's instructions move counters as its program says, on which all waits rest."""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.machine.mnemonics import Pipe
from pipeloom.machine.target import Target, Traffic
from pipeloom.program import Work
from pipeloom.write.faults import EmitError
from pipeloom.write.isa import Instruction, Label, Line

COUNTED = {Traffic.GLOBAL: Pipe.MEMORY, Traffic.LDS: Pipe.LDS}


def check_counts(target: Target, work: Work, added: Sequence[Line]) -> None:
    """A counter may move by more than the program says, which only makes waits stricter.

    wait(n) retires a step once n entries follow it; more instructions make that true earlier.
    Fewer would make the program's waits wrong, and so would an entry that it does not know of.
    """
    for traffic, unit in COUNTED.items():
        counter = target.counting(traffic).name
        count = _fewest(added, counter, unit)
        stated = work.entries if work.counter == counter else 0
        if count < stated or (count and not stated):
            raise EmitError(
                f"{work.label} takes {count} {counter} entries per wave, but the program counts "
                f"{stated}: its waits would be wrong",
                hint="count one entry per memory instruction",
                field=work.label,
            )


def _fewest(lines: Sequence[Line], counter: str, unit: Pipe) -> int:
    """The fewest instructions of a unit along any path; steps branch forwards only.

    What a step waits for itself (an exchange between lanes) is not outstanding after it.
    """
    nowhere = len(lines) + 1
    arriving: dict[str, int] = {}
    count = 0
    for line in lines:
        if isinstance(line, Label):
            count = min(count, arriving.get(line.name, nowhere))
        elif isinstance(line, Instruction):
            if line.opcode.name == "s_waitcnt" and f"{counter}(0)" in line.modifiers:
                count = min(count, 0)
            count += line.opcode.unit is unit
            if line.target is not None:
                arriving[line.target] = min(arriving.get(line.target, nowhere), count)
                count = nowhere if line.opcode.name == "s_branch" else count
    return count

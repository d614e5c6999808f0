"""Static register allocation: values with lifetimes get places that never clash.

A ``LiveValue`` is a run of registers that is live at some steps of the plan. Two values may share
registers where they are never live at the same step. Example: in the ping-pong schedule fragment
A0 is dead before A1 is read, so both get the same registers; B0 and B1 overlap and do not.

Placement is first-fit in the order given, or from the longest-lived on, so the result depends on
nothing but its input. SETUP is the time before the first step; a value that is not live then leaves
its registers free there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pipeloom.machine.target import Target
from pipeloom.write.faults import RegisterLimitError
from pipeloom.write.isa import Bank, Register

SETUP = -1


@dataclass(frozen=True, slots=True)
class LiveValue:
    """A named run of registers and the steps at which it is live."""

    name: str
    bank: Bank
    count: int
    live: frozenset[int]
    align: int = 2


@dataclass(frozen=True, slots=True)
class Allocation:
    """Where each value lies, and what is used in total."""

    places: Mapping[str, Register]
    used: Mapping[Bank, int]

    def __getitem__(self, name: str) -> Register:
        return self.places[name]

    def report(self) -> str:
        """One line per run of registers: its place and the values that share it."""
        shared: dict[tuple[str, int, int], list[str]] = {}
        for name, place in self.places.items():
            shared.setdefault((place.bank.value, place.index, place.count), []).append(name)
        return "\n".join(
            f"{Register(Bank(bank), index, count)!s:12} {', '.join(shared[bank, index, count])}"
            for bank, index, count in sorted(shared)
        )


def allocate(
    values: Sequence[LiveValue],
    target: Target,
    waves: int,
    reserved: Mapping[Bank, int] | None = None,
) -> Allocation:
    """Place every value; raises ``RegisterLimitError`` naming what is live where it overflows.

    Where they do not fit in the order given, what lives longest comes first.

    ``waves`` of a workgroup share the SIMDs of a compute unit, and with them the
    registers. ``reserved`` registers at the start of a file are left alone.
    """
    try:
        return _allocated(values, target, waves, reserved or {})
    except RegisterLimitError:
        longest = sorted(values, key=lambda value: (-len(value.live), -value.count))
        with suppress(RegisterLimitError):
            return _allocated(longest, target, waves, reserved or {})
        raise


def _allocated(
    values: Sequence[LiveValue], target: Target, waves: int, reserved: Mapping[Bank, int]
) -> Allocation:
    """Each at the first place that is free."""
    places: dict[str, Register] = {}
    used = {bank: reserved.get(bank, 0) for bank in (Bank.SCALAR, Bank.VECTOR, Bank.ACCUMULATOR)}
    taken: dict[Bank, list[int]] = {bank: [] for bank in used}
    for value in values:
        steps = sum(1 << (step - SETUP) for step in value.live)
        busy = taken[value.bank]
        at = _first_free(busy, reserved.get(value.bank, 0), value, steps)
        end = at + value.count
        busy += [0] * (end - len(busy))
        for register in range(at, end):
            busy[register] |= steps
        places[value.name] = Register(value.bank, at, value.count)
        used[value.bank] = max(used[value.bank], end)
    granule, direct = target.vgpr_granule.value, target.direct_vgprs.value
    share = target.vgpr_share(waves) // granule * granule
    limits = {
        Bank.SCALAR: target.sgprs.value,
        Bank.VECTOR: direct,
        Bank.ACCUMULATOR: direct,
    }
    for bank, limit in limits.items():
        if used[bank] > limit:
            raise _over(values, places, (bank,), used[bank], limit, target, waves)
    vectors = (Bank.VECTOR, Bank.ACCUMULATOR)
    total = -(-used[Bank.VECTOR] // 4) * 4 + used[Bank.ACCUMULATOR]
    if total > share:
        raise _over(values, places, vectors, total, share, target, waves)
    return Allocation(places, used)


def _first_free(busy: Sequence[int], start: int, value: LiveValue, steps: int) -> int:
    """The first place for a value; ``busy`` has for each register a bit for each step it is taken
    at, and so has ``steps`` of the value."""
    at = register = -(-start // value.align) * value.align
    while register < min(at + value.count, len(busy)):
        register += 1
        if busy[register - 1] & steps:
            at = register = -(-register // value.align) * value.align
    return at


def _over(
    values: Sequence[LiveValue],
    places: Mapping[str, Register],
    banks: tuple[Bank, ...],
    used: int,
    limit: int,
    target: Target,
    waves: int,
) -> RegisterLimitError:
    """The error, with the values that are live at the fullest step."""
    ours = [value for value in values if value.bank in banks]
    steps = sorted({step for value in ours for step in value.live})
    load = {step: sum(v.count for v in ours if step in v.live) for step in steps}
    worst = max(steps, key=lambda step: load[step])
    where = "the setup" if worst == SETUP else f"step {worst}"
    names = ", ".join(f"{v.name} {v.count} ({places[v.name]})" for v in ours if worst in v.live)
    kinds = " and ".join(bank.name.lower() for bank in banks)
    return RegisterLimitError(
        f"{used} {kinds} registers are needed, but a wave of a workgroup of {waves} waves has "
        f"{limit} on {target.arch}; at {where} these are live ({load[worst]} in all): {names}",
        hint=target.more_room(waves),
        field="tile",
    )

"""The bank conflict of one LDS access, from the addresses of its lanes.

The hardware serves a wave's access in phases of a few lanes each (``Target.lds_phases``). Within a
phase every bank delivers one 4-byte word per cycle; lanes that want the same word share it. So a
phase takes as many cycles as the busiest bank has different words to deliver, and the conflict is
the sum over the phases divided by their number. Example, gfx942, one column of 128-byte rows: all
lanes of a phase want the same four banks::

    >>> from pipeloom.machine.gfx942 import GFX942
    >>> bank_conflict([128 * lane for lane in range(64)], 16, GFX942)
    8.0
    >>> bank_conflict([16 * lane for lane in range(64)], 16, GFX942)
    1.0
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.errors import ConfigError
from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.target import Target

_UNALIGNED = 16.0  # GT lds_throughput: an access not aligned to its width takes 16 times as long


def bank_conflict(addresses: Sequence[int], bytes_per_lane: int, machine: Target) -> float:
    """The factor to give ``Instruction.lds_read`` or ``lds_write`` as ``conflict``.

    ``addresses`` holds the byte address of each of the 64 lanes.
    """
    if len(addresses) != WAVE_LANES:
        raise ConfigError(
            f"{len(addresses)} addresses for a wave",
            hint=f"give one for each of the {WAVE_LANES} lanes",
            field="addresses",
        )
    if min(addresses) < 0:
        raise ConfigError(
            f"LDS address {min(addresses)} is negative",
            hint="addresses count bytes from the start of LDS",
            field="addresses",
        )
    for phases in machine.lds_phases:
        if phases.bytes_per_lane == bytes_per_lane:
            break
    else:
        widths = ", ".join(str(phases.bytes_per_lane) for phases in machine.lds_phases)
        raise ConfigError(
            f"no bank conflicts are known for {bytes_per_lane} bytes per lane on {machine.arch}",
            hint=f"the widths are {widths}",
            field="bytes_per_lane",
        )
    if any(address % bytes_per_lane for address in addresses):
        return _UNALIGNED
    return phases.cycles(addresses, machine.lds_banks.value) / len(phases.lanes)

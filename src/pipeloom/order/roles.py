"""Who loads and who computes: groups of waves with jobs of their own.

    groups=(Producer(waves=1), Consumer(waves=4))

The producers do the loads that the workgroup makes together; consumers do everything else. Without
groups, all waves do both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pipeloom.checks import check_int
from pipeloom.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Producer:
    """Waves that only load staged streams to LDS."""

    waves: int = 1

    def __post_init__(self) -> None:
        check_int("Producer", "waves", self.waves, 1)


@dataclass(frozen=True, slots=True)
class Consumer:
    """Waves that read LDS and compute."""

    waves: int = 4

    def __post_init__(self) -> None:
        check_int("Consumer", "waves", self.waves, 1)


Role = Producer | Consumer


class Loading(Enum):
    """Which of several groups that compute load a tile to LDS."""

    IN_TURN = "in_turn"  # load by load
    BY_TILE = "by_tile"  # every group its own tiles
    FIRST = "first"  # the group that is first at the matrix unit
    LAST = "last"


@dataclass(frozen=True, slots=True)
class WaveGroup:
    """Waves by number, and what they do."""

    name: str
    waves: tuple[int, ...]
    loads: bool
    computes: bool


def wave_groups(waves: int, roles: Sequence[Role] | None) -> tuple[WaveGroup, ...]:
    """The groups of a workgroup, waves numbered in the order given."""
    if roles is None:
        return (WaveGroup("all", tuple(range(waves)), True, True),)
    kinds = sorted(type(role).__name__ for role in roles)
    if kinds != ["Consumer", "Producer"]:
        raise ConfigError(
            f"groups hold {', '.join(kinds) or 'nothing'}",
            hint="give one Producer and one Consumer, in either order, or leave groups out",
            field="groups",
        )
    found: list[WaveGroup] = []
    at = 0
    for role in roles:
        members = tuple(range(at, at + role.waves))
        at += role.waves
        loads = isinstance(role, Producer)
        found.append(WaveGroup(type(role).__name__.lower(), members, loads, not loads))
    return tuple(found)

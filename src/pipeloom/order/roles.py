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
    """How many waves do this."""

    def __post_init__(self) -> None:
        check_int("Producer", "waves", self.waves, 1)


@dataclass(frozen=True, slots=True)
class Consumer:
    """Waves that read LDS and compute."""

    waves: int = 4
    """How many waves do this."""

    def __post_init__(self) -> None:
        check_int("Consumer", "waves", self.waves, 1)


Role = Producer | Consumer


class Loading(Enum):
    """Which of several groups that compute load a tile to LDS."""

    IN_TURN = "in_turn"
    """The groups in turn, load by load."""
    BY_TILE = "by_tile"
    """Every group its own tiles."""
    FIRST = "first"
    """The group that is first at the matrix unit."""
    LAST = "last"
    """The group that is last at the matrix unit."""


@dataclass(frozen=True, slots=True)
class WaveGroup:
    """Waves by number, and what they do."""

    name: str
    """What pages call it."""
    waves: tuple[int, ...]
    """The waves by number."""
    loads: bool
    """Whether they load staged streams to LDS."""
    computes: bool
    """Whether they compute."""


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

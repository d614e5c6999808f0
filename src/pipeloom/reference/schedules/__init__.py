"""The shipped schedules, by name.

To add one: a file here with the schedule and a spec form (a frozen dataclass whose fields are
the keys of its spec file and whose ``build`` returns the schedule), and a line in ``SCHEDULES``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.reference.schedules.four_wave import FourWaveSpec
from pipeloom.reference.schedules.ping_pong import PingPongSpec
from pipeloom.reference.schedules.single_buffer import SingleBufferSpec


class SpecForm(Protocol):
    """What a spec file of one schedule holds."""

    def build(self) -> PipelineSchedule:
        """The schedule it describes."""
        ...


SCHEDULES: Mapping[str, type[SpecForm]] = MappingProxyType(
    {
        "ping_pong": PingPongSpec,
        "four_wave": FourWaveSpec,
        "single_buffer": SingleBufferSpec,
    }
)

DEFAULT_TILES: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "ping_pong": MappingProxyType({"BK": 64, "MMA_K": 32, "elem_bytes": 2}),
        "single_buffer": MappingProxyType({"BK": 64, "MMA_K": 32, "elem_bytes": 2}),
    }
)
"""The bf16 tile for gfx950 that a schedule is simulated and emitted for where none is named:
256x256x64 and 128x128x64.

Compiling alone needs no tile: the counter costs of the specification's profile stand in for it.
"""


def summary(form: type) -> str:
    """The first line of the docstring of a spec form."""
    doc = form.__doc__ or ""
    return doc.strip().splitlines()[0].rstrip(".")

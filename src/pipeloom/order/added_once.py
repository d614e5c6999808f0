"""What may be stored: values of the output's type that are computed; and what is added to an output
is in one lane of one wave, for else it would count several times."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pipeloom.errors import ConfigError
from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.order.shares import Shares
from pipeloom.program.nodes import Node
from pipeloom.program.resources import Layout


def check_stored(loop: str, node: Node, value: Node) -> None:
    """Raise where an output stores what is none of its own."""
    if value.type != node.type:
        raise ConfigError(
            f"{loop}: output {node.name!r} is {node.type}, but {value.name!r} is {value.type}",
            hint=f"convert before storing: loop.store({node.name!r}, x.to({node.type.dtype}))",
            field=node.name,
        )
    if value.kind.is_number:
        raise ConfigError(
            f"{loop}: output {node.name!r} is a plain number",
            hint="store something that is computed",
            field=node.name,
        )


def check_once(loop: str, node: Node, layout: Layout, shape: Sequence[int], shares: Shares) -> None:
    """Raise where lanes or waves hold the same elements of an output that is added to."""
    numbers = dict(layout.numbers)
    dealt = layout.kind == "lanes" and "spread" not in numbers
    whole = dealt and prod(shape) % (WAVE_LANES * numbers.get("vector", 1)) == 0
    result = layout.kind == "accumulator" and not {"only", "group"} & numbers.keys()
    again = [dim for dim in shares.divided if dim not in node.type.dims]
    if again or not (whole or result):
        raise ConfigError(
            f"{loop}: {node.name!r}, {node.type}, is added to, and several "
            + (f"waves along {again[0]!r} have it" if again else "lanes have its elements"),
            hint="add tiles of two dimensions, as products give them, all of whose dimensions are "
            "divided among waves; store others, and add them up in a second kernel",
            field=node.name,
        )

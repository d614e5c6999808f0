"""A lifted schedule is given the tile that it counts in units, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeloom import CompiledSchedule, ConfigError, build_schedule
from pipeloom.program import Program
from pipeloom.reference.lift import lift
from pipeloom.reference.sized import sized

TILE = {"BK": 64, "MMA_K": 32, "elem_bytes": 2}


@pytest.fixture(scope="module")
def compiled() -> CompiledSchedule:
    return build_schedule({"schedule": "ping_pong", "geometry": TILE})


def test_the_units_of_each_dimension_make_up_the_tile(compiled: CompiledSchedule) -> None:
    assert compiled.geometry is not None
    program = sized(lift(compiled), compiled.geometry, "bf16", "bf16")
    a, b = (node.type.sizes for node in program.meaning.inputs)
    assert a | b == {"m": 256, "n": 256, "k": 64}


@pytest.mark.parametrize(
    ("dim", "units"), [("m", 5), ("rows", 4)], ids=["no whole rows per unit", "another dimension"]
)
def test_a_program_that_does_not_count_the_tile_is_refused(
    compiled: CompiledSchedule, dim: str, units: int
) -> None:
    lifted = lift(compiled)
    assert lifted.meaning.inputs[0].type.sizes["m"] == 4
    assert compiled.geometry is not None
    with pytest.raises(ConfigError) as caught:
        sized(_with_rows(lifted, dim, units), compiled.geometry, "bf16", "bf16")
    assert caught.value.field == "geometry"


def _with_rows(program: Program, dim: str, units: int) -> Program:
    """With this dimension in place of m."""
    nodes = []
    for node in program.meaning.nodes:
        sizes = {
            (dim if d == "m" else d): units if d == "m" else n for d, n in node.type.sizes.items()
        }
        held = replace(node.type, dims=tuple(sizes), shape=tuple(sizes.values()))
        nodes.append(replace(node, type=held))
    return replace(program, meaning=replace(program.meaning, nodes=tuple(nodes)))

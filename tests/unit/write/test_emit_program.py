"""Kernels written from programs alone compute what the programs mean."""

from __future__ import annotations

import pytest
from tests.unit.write.programs import accept, row_sum

from pipeloom.drive.program_trial import run_program
from pipeloom.program import Program
from pipeloom.write import assemble, emit_program


@pytest.mark.parametrize("arch", ["gfx950", "gfx942"])
@pytest.mark.parametrize(
    ("batch", "depth", "columns"), [(3, 2, 256), (1, 10, 256), (2, 4, 300), (2, 6, 252)]
)
def test_row_sums(arch: str, batch: int, depth: int, columns: int) -> None:
    emitted = emit_program(row_sum(arch), judge=accept)
    trial = run_program(
        emitted, assemble(emitted), sizes={"b": batch, "k": depth, "c": columns}, seed=1
    )
    assert trial.ok, trial.summary()


def test_the_same_bytes_from_json() -> None:
    program = row_sum()
    again = Program.from_json(program.to_json())
    assert emit_program(again, judge=accept).text == emit_program(program, judge=accept).text

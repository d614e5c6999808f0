"""One loop without masks, one with them, in one program and one proof."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from evidence.emit_mutants import wave_through
from pipeloom.declare.kernels import attention, gemm
from pipeloom.errors import StructureError
from pipeloom.judge.simulate.issued import wave_programs
from pipeloom.judge.verify import verify
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine_code import emitted_programs
from pipeloom.order.arrange import arrange
from pipeloom.order.in_order import in_order
from pipeloom.order.peel import MASKED, peel
from pipeloom.program import Affine, Program, Section, Work
from pipeloom.sync import synchronize
from pipeloom.write import EmitError, emit_program


@cache
def whole(causal: bool = True) -> Program:
    arranged = arrange(attention(64, 32, 32, causal=causal), GFX950, 4, strategy=in_order)
    return synchronize(arranged.program, barrier_gaps=arranged.barrier_gaps)


def nodes(section: Section) -> list[str]:
    return [step.node for step in section.steps if isinstance(step, Work)]


def without_masks(program: Program, name: str) -> Program:
    (group,) = program.groups
    sections = tuple(
        replace(
            section,
            steps=tuple(s for s in section.steps if not (isinstance(s, Work) and s.node == "keep")),
        )
        if section.name == name
        else section
        for section in group.sections
    )
    return replace(program, groups=(replace(group, sections=sections),))


@pytest.mark.parametrize("causal", [False, True])
def test_the_loop_is_cut_in_two(causal: bool) -> None:
    program = peel(whole(causal))
    sections = {s.name: s for s in program.groups[0].sections}
    assert "keep" not in nodes(sections["loop"])
    assert nodes(sections[MASKED]) == nodes(
        next(s for s in whole(causal).groups[0].sections if s.name == "loop")
    )
    assert program.plain == Affine(0, (("T", 2),))
    assert program.iterations == Affine(1, (("T", 2), (MASKED, 2)))
    assert sections["epilogue"].first == Affine(0, (("T", 2), (MASKED, 2)))
    assert Program.from_json(program.to_json()) == program


def test_it_is_proved_and_a_mask_less_is_not() -> None:
    program = peel(whole())
    assert verify(program).proved
    assert not verify(without_masks(program, MASKED)).proved
    assert not verify(without_masks(program, "epilogue")).proved


def test_masks_that_change_nothing_may_stay() -> None:
    """More of them than the launch needs are right too."""
    program = peel(whole())
    (group,) = program.groups
    masked = next(s for s in group.sections if s.name == MASKED)
    kept = tuple(replace(s, steps=masked.steps) if s.name == "loop" else s for s in group.sections)
    assert verify(replace(program, groups=(replace(group, sections=kept),))).proved


def test_without_masks_nothing_changes() -> None:
    arranged = arrange(gemm(64, 64, 64), GFX950, 4, strategy=in_order)
    assert peel(arranged.program) is arranged.program
    assert attention(64, 32, 32).meaning.masks == {"keep"}


def test_what_plain_counts_is_checked() -> None:
    with pytest.raises(StructureError, match="plain counts trips by X"):
        replace(whole(), plain=Affine(0, (("X", 1),)))
    program = peel(whole())
    uneven = replace(program, iterations=Affine(1, (("T", 2), (MASKED, 1))))
    with pytest.raises(EmitError, match="computes"):
        emit_program(uneven, judge=wave_through)


def test_a_long_run_is_one_of_the_plain_loop() -> None:
    """Of the program and of the kernel, which runs masked trips behind it on the diagonal."""
    program = peel(whole())
    streams, trips = emitted_programs(emit_program(program, judge=wave_through), GFX950, 33)
    for stream in (*streams, *wave_programs(program)):
        assert {i.section for i in stream.loop if i.entry is not None} == {"loop"}
    assert trips > 1
    assert MASKED in {i.section for i in streams[0].epilogue}

"""Columns of 16-bit outputs go to memory in whole lines, for any size."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pipeloom.array_kinds import Places, Words
from pipeloom.declare.kernels import gemm
from pipeloom.drive.trial import run_program
from pipeloom.judge.emulate import vmem
from pipeloom.judge.emulate.global_memory import Extent, store_words
from pipeloom.machine.chips import target_for
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.arrange import arrange
from pipeloom.order.in_order import in_order
from pipeloom.order.node_tasks import lower
from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import woven
from pipeloom.program import Program, Work
from pipeloom.sync import synchronize
from pipeloom.write import assemble, emit_program
from pipeloom.write.faults import HazardError
from pipeloom.write.lower import emit
from pipeloom.write.lower.columns import SPAN, dealt, dealt_dimensions

LINE = 128


def program_of(n: int) -> Program:
    loop = gemm(32, n, 32)
    return woven(
        lower(loop.meaning, target_for("gfx950"), loop.ops, loop.staged, 1), Pattern(barriers=1)
    )


def test_places_change_within_spans_only() -> None:
    index = np.arange(96)
    assert sorted(dealt(index)) == list(index)
    assert np.array_equal(dealt(index) // SPAN, index // SPAN)
    # A lane's four columns of two blocks are neighbours in memory.
    assert [int(x) for x in dealt(np.array([4, 5, 6, 7, 20, 21, 22, 23]))] == list(range(8, 16))


def test_stores_are_16_bytes_wide_and_right_for_any_size() -> None:
    program = program_of(64)
    assert dealt_dimensions(program) == {"n"}
    emitted = emit_program(program)
    assert re.findall(r"buffer_store_(dword\w+)", emitted.text) == 4 * ["dwordx4"]
    code = assemble(emitted)
    for m, n in ((39, 72), (31, 77)):
        assert run_program(emitted, code, sizes={"m": m, "n": n, "k": emitted.launch.least}).ok


def test_two_stores_of_a_wave_fill_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """One behind the other: what the second finds open in a line of C, it closes."""
    stores: list[Places] = []

    def recorded(extents: list[Extent], values: Words) -> None:
        first = [extent.buffer.base + extent.offsets for extent in extents]
        stores.append(np.add.outer(np.concatenate(first), np.arange(4 * values.shape[1])).ravel())
        store_words(extents, values)

    monkeypatch.setattr(vmem, "store_words", recorded)
    emitted = emit_program(program_of(64))
    sizes = {"m": 32, "n": 64, "k": emitted.launch.least}
    assert run_program(emitted, assemble(emitted), sizes=sizes, spare={"out": 0}).ok
    assert len(stores) == 4
    for first, second in zip(stores[::2], stores[1::2], strict=True):
        lines, counts = np.unique(np.concatenate((first, second)) // LINE, return_counts=True)
        assert len(lines) == 16
        assert set(counts) == {LINE}


def test_what_is_no_whole_span_stays_as_it_is() -> None:
    assert not dealt_dimensions(program_of(96))


def stored_otherwise(program: Program, store: Callable[[Work], Work]) -> Program:
    groups = [
        replace(
            group,
            sections=tuple(
                replace(
                    section,
                    steps=tuple(
                        store(step)
                        if isinstance(step, Work) and step.label.startswith("store")
                        else step
                        for step in section.steps
                    ),
                )
                for section in group.sections
            ),
        )
        for group in program.groups
    ]
    return program.with_groups(tuple(groups), program.provenance)


def test_a_tile_of_no_whole_spans_that_is_stored_at_once() -> None:
    """Said without a box, all of it: columns 32 to 47 would be dealt over 32 to 63."""

    def bare(step: Work) -> Work:
        (write,) = step.writes
        return replace(step, parts=(), writes=(replace(write, boxes=()),), entries=1)

    loop = gemm(16, 48, 32)
    program = synchronize(arrange(loop, GFX950, 1, strategy=in_order).program)
    assert not dealt_dimensions(stored_otherwise(program, bare))


def test_nobody_states_more_stores_than_there_are() -> None:
    """Fewer instructions than stated would make waits wrong, so columns stay where they were."""

    def twice(step: Work) -> Work:
        issues = tuple(replace(issue, count=2 * issue.count) for issue in step.issues)
        return replace(step, entries=2 * step.entries, issues=issues)

    assert not dealt_dimensions(stored_otherwise(program_of(64), twice))


def test_only_what_no_instructions_compute_is_written_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any other fault of the kernel with dealt columns is a fault."""
    attempts = []

    def refuse_once(text: str, arch: str) -> None:
        attempts.append(arch)
        if len(attempts) == 1:
            raise HazardError("too few wait states", hint="insert some")

    monkeypatch.setattr(emit, "require_no_hazards", refuse_once)
    with pytest.raises(HazardError):
        emit_program(program_of(64))


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_both_types_of_16_bits(dtype: str) -> None:
    loop = gemm(32, 64, 32, dtype)
    lowered = lower(loop.meaning, target_for("gfx950"), loop.ops, loop.staged, 1)
    assert dealt_dimensions(woven(lowered, Pattern(barriers=1))) == {"n"}

"""The machine code, read back from its bytes, is the program step by step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeloom.drive.trial import Launchable
from pipeloom.judge.emulate import Decoded, decode_kernel
from pipeloom.program import Barrier, Fence, Group, Priority, Step, Unit, Wait
from pipeloom.write import assemble, emit_program
from tests.unit.write.kernels import Shape, built_program

Item = tuple[str, int]
NO_VM, NO_LGKM = 63, 15
FAMILIES = {
    Unit.MATRIX: "v_mfma",
    Unit.LDS_READ: "ds_read",
    Unit.LDS_WRITE: "ds_write",
}


def decoded_item(instruction: Decoded) -> Item | None:
    """What counts for the schedule, of one decoded instruction."""
    name, fields = instruction.name, instruction.fields
    if name in ("s_barrier", "s_setprio"):
        return name, fields["simm16"]
    if name == "s_waitcnt":
        bits = fields["simm16"]
        vm, lgkm = bits & 15 | bits >> 14 << 4, bits >> 8 & 15
        assert vm == NO_VM or lgkm == NO_LGKM, "a step's wait is for one counter"
        return ("wait vm", vm) if vm != NO_VM else ("wait lgkm", lgkm)
    if name.startswith("buffer_load"):
        return ("lds-dma" if fields["lds"] else "load"), 1
    for family in ("ds_read", "ds_write", "v_mfma", "buffer_store"):
        if name.startswith(family):
            return family, 1
    assert name.startswith(("s_", "v_")), f"{name} is memory traffic that no step asked for"
    return None


def expected_items(step: Step, load: str) -> list[Item]:
    """The instructions that a step stands for, as it says itself what it issues."""
    match step:
        case Barrier():
            return [("s_barrier", 0)]
        case Wait():
            return [("wait vm" if step.counter == "vmcnt" else "wait lgkm", step.count)]
        case Priority():
            return [("s_setprio", step.level)]
        case Fence():
            return []
    families = {**FAMILIES, Unit.LOAD: load, Unit.LOAD_LDS: load}
    return [
        (families[issue.unit], 1)
        for issue in step.issues
        if issue.unit in families
        for _ in range(issue.count)
    ]


CASES: list[tuple[str, str, Shape, str]] = [
    ("ping_pong", "bf16", (128, 128, 64, 16, 32), "lds-dma"),
    ("four_wave", "fp8", (128, 128, 128, 16, 128), "lds-dma"),
    ("single_buffer", "bf16", (128, 128, 64, 16, 32), "load"),
    ("gemm_tile", "bf16", (64, 64, 64, 16, 32), "lds-dma"),
]


@pytest.mark.parametrize(("name", "dtype", "shape", "load"), CASES, ids=str)
def test_bytes_are_the_program(
    built: Callable[..., Launchable], name: str, dtype: str, shape: Shape, load: str
) -> None:
    program, ready = built_program(name, dtype, shape), built(name, dtype, shape)
    items = [item for i in decode_kernel(ready.kernel.code) if (item := decoded_item(i))]
    assert items.pop(0) == ("wait lgkm", 0), "the arguments have arrived"
    for group in program.groups:
        expected = [item for step in steps(group) for item in expected_items(step, load)]
        assert items[: len(expected)] == expected
        del items[: len(expected)]
        stores = next((at for at, item in enumerate(items) if item[0] != "buffer_store"), None)
        assert stores != 0, "every group stores"
        del items[:stores]
    assert not items


def steps(group: Group) -> list[Step]:
    """All but the stores, which take as many instructions as rows and columns ask for."""
    return [
        step
        for section in group.sections
        for step in section.steps
        if section.name not in ("store", "after")
    ]


def test_line_map_names_every_instruction(built: Callable[..., Launchable]) -> None:
    ready = built("ping_pong", "bf16", (128, 128, 64, 16, 32))
    instructions = decode_kernel(ready.kernel.code)
    text = ready.emitted.text
    padding = 0
    for instruction in instructions:
        if instruction.pc not in ready.line_map:
            assert (instruction.name, instruction.fields["simm16"]) == ("s_nop", 0)
            padding += 1
            continue
        source = ready.line_map[instruction.pc]
        assert source.text.split()[0] == instruction.name
        assert text.splitlines()[source.line - 1].strip() == source.text
    assert padding < 2 * 64 // 4, "one alignment, of the loop of each group"
    entries = {source.entry for source in ready.line_map.values() if source.entry}
    assert any(entry.startswith("loop[") for entry in entries)
    assert any(entry.endswith("] stagger") for entry in entries)


def test_emission_is_deterministic() -> None:
    program = built_program("ping_pong", "bf16", (128, 128, 64, 16, 32))
    first, second = emit_program(program), emit_program(program)
    assert first.text == second.text
    assert assemble(first).data == assemble(second).data

"""The machine code, read back from its bytes, is the schedule one to one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeloom.drive.trial import Launchable
from pipeloom.judge.emulate import Instruction, decode_kernel
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.kernels import Counter, Step, kernel_for
from pipeloom.reference.ops import OpDesc, OpRole, OpTag
from pipeloom.write import assemble, emit_kernel, plan_kernel

Item = tuple[str, int]
NO_VM, NO_LGKM = Counter.VM.limit, Counter.LGKM.limit


def decoded_item(instruction: Instruction) -> Item | None:
    """What counts for the schedule, of one decoded instruction."""
    name, fields = instruction.name, instruction.fields
    if name in ("s_barrier", "s_setprio"):
        return name, fields["simm16"]
    if name == "s_waitcnt":
        bits = fields["simm16"]
        vm, lgkm = bits & 15 | bits >> 14 << 4, bits >> 8 & 15
        if vm == lgkm == 0:
            return "wait all", 0
        assert vm == NO_VM or lgkm == NO_LGKM, "a schedule's wait is for one counter"
        return ("wait vm", vm) if vm != NO_VM else ("wait lgkm", lgkm)
    if name.startswith("buffer_load"):
        return ("lds-dma" if fields["lds"] else "load"), 1
    for family in ("ds_read", "ds_write", "v_mfma", "buffer_store"):
        if name.startswith(family):
            return family, 1
    assert name.startswith(("s_", "v_")), f"{name} is memory traffic that no entry asked for"
    return None


def expected_items(op: OpDesc, counts: dict[OpRole, tuple[str, int]]) -> list[Item]:
    """The instructions that an entry stands for."""
    match op.tag:
        case OpTag.BARRIER:
            return [("s_barrier", 0)]
        case OpTag.WAIT_VM:
            return [("wait vm", op.wait_value)]
        case OpTag.WAIT_LGKM:
            return [("wait lgkm", op.wait_value)]
        case OpTag.SET_PRIO:
            return [("s_setprio", op.wait_value)]
        case OpTag.SCHEDULE_BARRIER | OpTag.SCHED_GROUP_BARRIER:
            return []
    family, count = counts[op.role]
    return [(family, 1)] * count


CASES = [
    # A half of 64 rows is one load of 8 waves; 4 rows of tiles by 2 reads; 2*1 tiles, 2 deep.
    ("ping_pong", "bf16", (128, 128, 64, 16, 32)),
    ("four_wave", "fp8", (256, 256, 128, 16, 128)),
    ("single_buffer", "bf16", (128, 128, 64, 16, 0)),
]


@pytest.mark.parametrize(("name", "dtype", "shape"), CASES, ids=str)
def test_bytes_are_the_schedule(
    proved: Callable[..., CompiledSchedule],
    built: Callable[..., Launchable],
    name: str,
    dtype: str,
    shape: tuple[int, int, int, int, int],
) -> None:
    compiled, ready = proved(name, dtype, shape), built(name, dtype, shape)
    kernel = kernel_for(compiled)
    geometry = ready.emitted.geometry
    assert geometry is not None
    expected: list[Item] = [("wait lgkm", 0)]  # the arguments have arrived
    for step in plan_kernel(kernel, compiled).steps():
        op = step.op
        if op.is_framework:
            expected += expected_items(op, {})
            continue
        if name == "single_buffer":
            counts = {
                OpRole.GLOBAL_LOAD: ("load", 8),
                OpRole.SHARED_STORE: ("ds_write", 8),
                OpRole.FRAGMENT_LOAD: ("ds_read", 8),
                OpRole.COMPUTE: ("v_mfma", 16),
            }
        else:
            placed = Step(0, op, step.phase, step.slot, None, 0, step.tile)
            effect = kernel.effect(placed, 0)
            rows, columns = (2, 4) if name == "ping_pong" else (2, 2)
            mmas = (
                geometry.BM
                // rows
                // 2
                // geometry.MMA_M
                * (geometry.BN // columns // 2 // geometry.MMA_N)
                * geometry.k_mmas
            )
            counts = {
                OpRole.GLOBAL_LOAD: ("lds-dma", effect.entries),
                OpRole.FRAGMENT_LOAD: ("ds_read", effect.entries),
                OpRole.COMPUTE: ("v_mfma", mmas),
            }
        expected += expected_items(op, counts)
    expected.append(("wait all", 0))
    items = [item for i in decode_kernel(ready.kernel.code) if (item := decoded_item(i))]
    stores = items.index(("buffer_store", 1))
    assert items[:stores] == expected
    assert set(items[stores:]) == {("buffer_store", 1)}


Counts = dict[tuple[OpRole, int], Item]
"""By role and channel (-1 for A and B together): the family, and how many instructions."""
LOAD, STORE, FRAGMENT = OpRole.GLOBAL_LOAD, OpRole.SHARED_STORE, OpRole.FRAGMENT_LOAD
MODULO_CASES: list[tuple[str, str, tuple[int, int, int, int, int], str, Counts]] = [
    # 64 rows of 128 bytes are 2 loads of 256 lanes; a wave has 16 rows of A and 64 of B.
    (
        "gemm_tile_single_buffer",
        "bf16",
        (64, 64, 64, 16, 32),
        "gfx950",
        {
            (LOAD, -1): ("load", 4),
            (STORE, -1): ("ds_write", 4),
            (FRAGMENT, -1): ("ds_read", 5),
            (OpRole.COMPUTE, -1): ("v_mfma", 4),
        },
    ),
    # The same bytes; a read feeds two of the shallow instructions.
    (
        "gemm_tile_single_buffer",
        "fp16",
        (64, 64, 64, 16, 16),
        "gfx942",
        {
            (LOAD, -1): ("load", 4),
            (STORE, -1): ("ds_write", 4),
            (FRAGMENT, -1): ("ds_read", 5),
            (OpRole.COMPUTE, -1): ("v_mfma", 8),
        },
    ),
    # 32 bytes per lane and MFMA: two reads each; one K step of 128.
    (
        "gemm_tile_single_buffer",
        "fp8",
        (128, 64, 128, 16, 128),
        "gfx950",
        {
            (LOAD, -1): ("load", 6),
            (STORE, -1): ("ds_write", 6),
            (FRAGMENT, -1): ("ds_read", 12),
            (OpRole.COMPUTE, -1): ("v_mfma", 8),
        },
    ),
    # Half of 64 rows of 64 bytes: 2 loads of 256 lanes x 4 bytes; 1 tile of rows; 2 MFMAs deep.
    (
        "gemm_tile",
        "bf16",
        (64, 64, 32, 16, 16),
        "gfx942",
        {
            (LOAD, 0): ("lds-dma", 2),
            (LOAD, 1): ("lds-dma", 2),
            (FRAGMENT, 0): ("ds_read", 1),
            (FRAGMENT, 1): ("ds_read", 1),
            (OpRole.COMPUTE, -1): ("v_mfma", 2),
        },
    ),
    # Eight waves: halves of 64 and 128 rows; quadrants of 32 x 32.
    (
        "gemm_tile_ping_pong",
        "fp8",
        (128, 256, 64, 32, 16),
        "gfx942",
        {
            (LOAD, 0): ("lds-dma", 2),
            (LOAD, 1): ("lds-dma", 4),
            (FRAGMENT, 0): ("ds_read", 2),
            (FRAGMENT, 1): ("ds_read", 2),
            (OpRole.COMPUTE, -1): ("v_mfma", 4),
        },
    ),
]


@pytest.mark.parametrize(("name", "dtype", "shape", "target", "counts"), MODULO_CASES)
def test_bytes_are_the_modulo_schedule(
    proved: Callable[..., CompiledSchedule],
    built: Callable[..., Launchable],
    name: str,
    dtype: str,
    shape: tuple[int, int, int, int, int],
    target: str,
    counts: Counts,
) -> None:
    """Entries as the schedule has them, in numbers worked out by hand: no count is a bound."""
    compiled = proved(name, dtype, shape, target)
    ready = built(name, dtype, shape, target)
    kernel = kernel_for(compiled)
    expected: list[Item] = [("wait lgkm", 0)]
    for step in plan_kernel(kernel, compiled).steps():
        op = step.op
        if op.is_framework:
            expected += expected_items(op, {})
            continue
        family, count = counts[op.role, op.channel]
        expected += [(family, 1)] * count
        effect = kernel.effect(Step(0, op, step.phase, step.slot, None, 0, step.tile), 0)
        if effect.counter is not None:
            assert effect.entries == count
    expected.append(("wait all", 0))
    items = [item for i in decode_kernel(ready.kernel.code) if (item := decoded_item(i))]
    stores = items.index(("buffer_store", 1))
    assert items[:stores] == expected
    assert set(items[stores:]) == {("buffer_store", 1)}


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
    assert padding < 64 // 4, "one alignment, of the loop"
    entries = {source.entry for source in ready.line_map.values() if source.entry}
    assert any(entry.startswith("kernel[") for entry in entries)
    assert "prologue barrier (stagger)" in entries


def test_emission_is_deterministic(proved: Callable[..., CompiledSchedule]) -> None:
    compiled = proved("ping_pong", "bf16", (128, 128, 64, 16, 32))
    first, second = emit_kernel(compiled), emit_kernel(compiled)
    assert first.text == second.text
    assert assemble(first).data == assemble(second).data

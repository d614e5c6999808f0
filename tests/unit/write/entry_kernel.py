"""A kernel written down as entries, with its own model and emitter: out[b, :] = sum of X[b, k, :].

Two registers take turns: while one row is added, the other is being loaded. (1) the entries of the
three phases, (2) a ``Kernel``: what they touch, (3) an ``EntryEmitter``: what they are in
instructions. ``examples/own_kernel.py`` declares the same sum and writes none of this.
"""

from __future__ import annotations

import numpy as np

from pipeloom import OpDesc, OpRole, Phase, ScheduleConfig, mi355x_single_buffer
from pipeloom.judge.emulate import load_code_object, run_kernel
from pipeloom.reference.compiled import Certificate, CompiledSchedule, ScheduleEntry
from pipeloom.reference.kernels import (
    Accumulator,
    Counter,
    Effect,
    Kernel,
    Register,
    Step,
    WalkBuilder,
)
from pipeloom.reference.ops import KOffsetKind
from pipeloom.reference.resync import synchronize
from pipeloom.write import (
    Argument,
    Code,
    EmitRequest,
    EntryEmitter,
    LoopRegisters,
    PlannedStep,
    Resources,
    advance_base,
    assemble,
    emit_kernel,
)
from pipeloom.write.allocate import SETUP, STORE, Value, allocate
from pipeloom.write.isa import Bank, sgpr
from pipeloom.write.plan import register_lifetimes

LOAD, ADD = 0, 1
LANES, WORDS = 64, 4
ROW_BYTES = LANES * WORDS * 4
"""A tile is one row: 64 lanes with four floats each."""


def load(register: int, k: KOffsetKind) -> OpDesc:
    """Bring a row to a register."""
    return OpDesc(LOAD, stage=register, k_offset=k, role=OpRole.GLOBAL_LOAD, vm_cost=1)


def add(register: int) -> OpDesc:
    """Add a register to the sum."""
    return OpDesc(ADD, stage=register, role=OpRole.COMPUTE)


# (1) The entries. The loop runs at k_base = 2, 4, ...: it adds rows k_base - 2 and k_base - 1 and
# loads rows k_base and k_base + 1. There is no wait in it.
PROLOGUE = [load(0, KOffsetKind.K0), load(1, KOffsetKind.K1)]
LOOP = [add(0), load(0, KOffsetKind.K0), add(1), load(1, KOffsetKind.K1)]
EPILOGUE = [add(0), add(1)]


def row_sum_schedule() -> CompiledSchedule:
    """The three phases as a compiled schedule."""

    def entries(ops: list[OpDesc], phase: Phase) -> tuple[ScheduleEntry, ...]:
        return tuple(ScheduleEntry(op, slot, phase) for slot, op in enumerate(ops))

    return CompiledSchedule(
        schedule="row_sum",
        config=mi355x_single_buffer(),
        schedule_config=ScheduleConfig(),
        body=tuple(LOOP),
        edges=(),
        order=tuple(range(len(LOOP))),
        certificate=Certificate("by hand", 0, 0, 0, False, 0),
        program=None,
        prologue=entries(PROLOGUE, Phase.PROLOGUE),
        kernel=entries(LOOP, Phase.KERNEL),
        epilogue=entries(EPILOGUE, Phase.EPILOGUE),
        kernel_deps=(),
        warp_stagger_index=0,
    )


class RowSumKernel(Kernel):
    """(2) What the entries touch: one wave, two registers, one sum."""

    name = "row_sum"
    waves = 1
    groups = ((0,),)

    @property
    def tiles_per_iteration(self) -> int:
        return 2

    def tiles(self, trips: int) -> int:
        return 2 * trips + 2

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Accumulator(0, 0),)

    def walk(self, compiled: CompiledSchedule, wave: int, trips: int) -> tuple[Step, ...]:
        walk = WalkBuilder()
        walk.entries(compiled.prologue, 0)
        for trip in range(trips):
            walk.entries(compiled.kernel, 2 * (trip + 1), trip)
        walk.entries(compiled.epilogue, 2 * (trips + 1))
        return walk.done()

    def effect(self, step: Step, wave: int) -> Effect:
        register = Register("row", step.op.stage)
        if step.op.role is OpRole.GLOBAL_LOAD:
            return Effect(Counter.VM, 1, tile=step.tile, register_writes=(register,))
        if step.op.role is OpRole.COMPUTE:
            return Effect(register_reads=(register,), accumulator=Accumulator(0, 0))
        return Effect()


class RowSumEmitter(EntryEmitter):
    """(3) What the entries are in instructions."""

    arguments = (
        Argument("X", 0, 8, True),
        Argument("out", 8, 8, True),
        Argument("K", 16, 4, False),
    )
    buffer, result = sgpr(4, 4), sgpr(8, 4)
    scratch, rows, offset = sgpr(12, 2), sgpr(14), sgpr(15)
    loop = LoopRegisters(sgpr(16), sgpr(17), sgpr(18), 2 * ROW_BYTES)

    def __init__(self, request: EmitRequest) -> None:
        lifetimes = register_lifetimes(request.plan, request.compiled)
        steps = frozenset(range(len(request.plan.steps()))) | {SETUP, STORE}
        values = [Value("lane", Bank.VECTOR, 1, steps, align=1)]
        values += [Value(str(r), Bank.VECTOR, WORDS, live) for r, live in lifetimes.items()]
        values += [Value("sum", Bank.VECTOR, WORDS, steps)]
        self.allocation = allocate(values, request.chip, waves=1)
        vgprs = self.allocation.used[Bank.VECTOR]
        self.resources = Resources(vgprs, 0, 19, 0, 1, request.chip.name, request.chip.lds_bytes)

    def setup(self, code: Code) -> None:
        """Each workgroup takes one b: K rows of X, one row of out."""
        code("s_load_dwordx2", self.buffer.part(0, 2), sgpr(0, 2), 0)
        code("s_load_dwordx2", self.result.part(0, 2), sgpr(0, 2), 8)
        code("s_load_dword", self.rows, sgpr(0, 2), 16)
        code.wait(lgkm=0)
        code("s_mul_i32", self.rows, self.rows, ROW_BYTES)
        for buffer, size in ((self.buffer, self.rows), (self.result, ROW_BYTES)):
            advance_base(code, buffer, sgpr(2), size, self.scratch)
            code("s_mov_b32", buffer.part(2), size)
            code("s_mov_b32", buffer.part(3), 0x00027000)
        code("s_mov_b32", self.loop.offset, 0)
        code("s_sub_u32", self.loop.end, self.rows, 2 * ROW_BYTES)
        code("s_mov_b32", self.loop.group, 0)
        code("v_lshlrev_b32", self.allocation["lane"], 4, self.allocation["lane"])
        for i in range(WORDS):
            code("v_mov_b32", self.allocation["sum"].part(i), 0)

    def entry(self, code: Code, step: PlannedStep) -> None:
        """One load instruction, or four adds."""
        row = self.allocation[f"row{step.op.stage}"]
        if step.op.role is OpRole.GLOBAL_LOAD:
            assert step.tile is not None
            code("s_add_u32", self.offset, self.loop.offset, step.tile * ROW_BYTES)
            lane = self.allocation["lane"]
            code("buffer_load_dwordx4", row, lane, self.buffer, self.offset, modifiers=["offen"])
            return
        total = self.allocation["sum"]
        for i in range(WORDS):
            code("v_add_f32", total.part(i), row.part(i), total.part(i))

    def finish(self, code: Code) -> None:
        """Store the sum."""
        total, lane = self.allocation["sum"], self.allocation["lane"]
        code("buffer_store_dwordx4", total, lane, self.result, 0, modifiers=["offen"])


def main(batch: int = 3, rows: int = 10) -> bool:
    """Derive the waits, prove, emit, run; whether the sums are right."""
    kernel = RowSumKernel()
    compiled = synchronize(row_sum_schedule(), kernel)
    emitted = emit_kernel(compiled, kernel=kernel, emitter=RowSumEmitter, dtype="f32")
    code = assemble(emitted)
    x = np.random.default_rng(0).integers(-9, 10, (batch, rows, LANES * WORDS)).astype(np.float32)
    out = np.zeros((batch, LANES * WORDS), np.float32)
    result = run_kernel(
        load_code_object(code.data), emitted.name, grid=(batch, 1, 1), block=emitted.block,
        args=[x, out, rows], seed=1,
    )  # fmt: skip
    right = bool((out == x.sum(axis=1)).all()) and result.ok
    waits = [str(line) for line in emitted.lines if "s_waitcnt" in str(line)]
    print(f"{emitted.status.name}, {emitted.resources}")
    print(f"waits: {', '.join(waits)}")
    print("sums are right" if right else f"WRONG: {result.findings}")
    return right

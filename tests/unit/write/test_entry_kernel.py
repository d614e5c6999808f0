"""A kernel with a model and an emitter of its own goes through the same passes."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from pipeloom.reference.resync import synchronize
from pipeloom.write import EmitError, emit_kernel, plan_kernel

EXAMPLE = Path(__file__).with_name("entry_kernel.py")


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("own_kernel", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("rows", [2, 4, 12])
def test_the_example_sums(example: ModuleType, rows: int) -> None:
    assert example.main(batch=2, rows=rows)


def test_its_bases_are_64_bits_wide(example: ModuleType) -> None:
    """Workgroup b starts b * K * 1024 bytes in, which 32 bits do not hold."""
    kernel = example.RowSumKernel()
    compiled = synchronize(example.row_sum_schedule(), kernel)
    emitted = emit_kernel(compiled, kernel=kernel, emitter=example.RowSumEmitter, dtype="f32")
    names = [str(line).split()[0] for line in emitted.lines]
    assert names.count("s_mul_hi_u32") == names.count("s_addc_u32") == 2
    high = [str(line) for line in emitted.lines if str(line).startswith(("s_mul_hi", "s_addc"))]
    for product, total in zip(high[::2], high[1::2], strict=True):
        assert product.split()[1].rstrip(",") == total.split()[-1], "the high half is added"


def test_its_loads_stay_in_flight(example: ModuleType) -> None:
    kernel = example.RowSumKernel()
    compiled = synchronize(example.row_sum_schedule(), kernel)
    waits = [entry.op.wait_value for entry in compiled.kernel if entry.op.is_framework]
    assert waits == [1, 1], "each add leaves the other register's load in flight"


def test_a_launch_needs_a_tile_shape(example: ModuleType) -> None:
    kernel = example.RowSumKernel()
    compiled = synchronize(example.row_sum_schedule(), kernel)
    emitted = emit_kernel(compiled, kernel=kernel, emitter=example.RowSumEmitter)
    with pytest.raises(EmitError, match="has no tile shape to derive its launch from"):
        emitted.grid(4, 4)


def test_a_walk_that_is_no_loop_is_refused(example: ModuleType) -> None:
    compiled = synchronize(example.row_sum_schedule(), example.RowSumKernel())

    class Uneven(example.RowSumKernel):  # type: ignore[name-defined, misc]
        def walk(self, compiled, wave, trips):  # type: ignore[no-untyped-def]
            steps = super().walk(compiled, wave, trips)
            last = [s for s in steps if s.iteration == trips - 1][-1:]
            return tuple(replace(s, tile=7) if s in last else s for s in steps)

    with pytest.raises(EmitError, match="it is no loop"):
        plan_kernel(Uneven(), compiled)

    class Growing(example.RowSumKernel):  # type: ignore[name-defined, misc]
        def walk(self, compiled, wave, trips):  # type: ignore[no-untyped-def]
            steps = super().walk(compiled, wave, trips)
            return steps if trips != 2 else steps[:-1]

    with pytest.raises(EmitError, match="another prologue or epilogue with"):
        plan_kernel(Growing(), compiled)


def test_an_entry_may_not_wait_or_load_by_itself(example: ModuleType) -> None:
    kernel = example.RowSumKernel()
    compiled = synchronize(example.row_sum_schedule(), kernel)

    class Waiting(example.RowSumEmitter):  # type: ignore[name-defined, misc]
        def entry(self, code, step):  # type: ignore[no-untyped-def]
            code.wait(vm=0)
            super().entry(code, step)

    with pytest.raises(EmitError, match=r"added 's_waitcnt vmcnt\(0\)', which is no part"):
        emit_kernel(compiled, kernel=kernel, emitter=Waiting)

    class Greedy(example.RowSumEmitter):  # type: ignore[name-defined, misc]
        def entry(self, code, step):  # type: ignore[no-untyped-def]
            super().entry(code, step)
            super().entry(code, step)

    with pytest.raises(EmitError, match=r"takes 2 vmcnt entries .* counts 1"):
        emit_kernel(compiled, kernel=kernel, emitter=Greedy)


def test_a_kernel_whose_loop_always_runs(example: ModuleType) -> None:
    class AtLeastOnce(example.RowSumKernel):  # type: ignore[name-defined, misc]
        min_trips = 1

    kernel = AtLeastOnce()
    compiled = synchronize(example.row_sum_schedule(), kernel)
    emitted = emit_kernel(compiled, kernel=kernel, emitter=example.RowSumEmitter)
    assert (emitted.k_min, emitted.k_step) == (4, 2)
    assert plan_kernel(kernel, compiled).first_tiles == 2

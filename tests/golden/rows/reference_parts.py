"""What the steps of the specification's system say of bodies, shapes and knobs that are changed in
a few places, and of tiles that are drawn: a row for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import product
from random import Random
from typing import Any

from benchmarks.kernel_results import digest
from pipeloom.errors import ScheduleError
from pipeloom.machine.chips import target_for
from pipeloom.reference.block_program import build_kernel_program
from pipeloom.reference.blocks import PipelineProgram
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.config import PipelineConfig
from pipeloom.reference.edges import derive_edges_from_ops
from pipeloom.reference.geometry import KernelGeometry
from pipeloom.reference.graph import LoopBody
from pipeloom.reference.hints import AMDScheduleHints, append_amd_hints
from pipeloom.reference.instruction_counts import InstructionCounts, disagreement
from pipeloom.reference.kernels import kernel_for
from pipeloom.reference.notes import idle_limits, idle_shape, reasons
from pipeloom.reference.ops import KOffsetKind, OpDesc, OpRole
from pipeloom.reference.phases import (
    derive_double_buffer_phases,
    derive_kernel_deps,
    derive_single_buffer_phases,
    derive_warp_stagger_index,
)
from pipeloom.reference.reorder import (
    double_buffer_reorder,
    optimize_within_barriers,
    single_buffer_reorder,
)
from pipeloom.reference.schedule_config import ScheduleConfig, SchedulingStrategy
from pipeloom.reference.spec import build_schedule
from pipeloom.reference.structure import check_complete, verify_schedule
from pipeloom.reference.words import Labels, tile_text, unsynchronised_note

TILES = {
    "ping_pong": ("BM=128", "BN=128", "BK=64"),
    "four_wave": ("BM=64", "BN=128", "BK=64"),
    "single_buffer": ("BM=64", "BN=64", "BK=64"),
}
EACH = 160
SIDES = (16, 32, 48, 64, 96, 128, 192, 256)


def step_rows() -> dict[str, dict[str, str]]:
    """By schedule: what becomes of it step by step with two or three changes."""
    return {name: dict(_changed(name)) for name in TILES}


def _changed(name: str) -> Iterator[tuple[str, str]]:
    settings = [f"geometry.{one}" for one in TILES[name]]
    settings += ["geometry.MMA_K=32", "geometry.elem_bytes=2"]
    base = build_schedule(name, settings, sync="reference")
    for number in range(EACH):
        rng = Random(f"{name} {number}")
        body, config, knobs = list(base.body), base.config, base.schedule_config
        what = []
        for _ in range(number % 3 + (number > 0)):
            kind = rng.randrange(3)
            if kind == 0:
                what.append(_change_body(rng, body))
            elif kind == 1:
                config = _with(rng, config, what)
            else:
                knobs = _with(rng, knobs, what)
        yield f"{number}: {', '.join(what)}", "; ".join(_steps(base, body, config, knobs))


def _change_body(rng: Random, body: list[OpDesc]) -> str:
    at, other = rng.randrange(len(body)), rng.randrange(len(body))
    what = rng.randrange(6)
    if what == 0:
        body.insert(other, body.pop(at))
        return f"op {at} to {other}"
    if what == 1:
        del body[at]
        return f"no op {at}"
    if what == 2:
        body.insert(other, body[at])
        return f"op {at} again at {other}"
    values: dict[str, Any] = {
        "stage": rng.choice((0, 1, 2)),
        "subtile": rng.choice((0, 1, 2)),
        "channel": rng.choice((0, 1)),
        "k_offset": rng.choice(list(KOffsetKind)),
        "latency": rng.choice((0, 1, 30)),
        "vgpr_def": rng.choice((0, 3)),
    }
    name, value = rng.choice(list(values.items()))
    body[at] = replace(body[at], **{name: value})
    return f"{name} of op {at} = {value}"


def _with(rng: Random, settings: Any, what: list[str]) -> Any:
    field = rng.choice([f for f in fields(settings) if f.name != "depth"])
    now = getattr(settings, field.name)
    if isinstance(now, bool):
        value: object = not now
    elif isinstance(now, SchedulingStrategy):
        value = rng.choice(list(SchedulingStrategy))
    elif isinstance(now, int):
        value = rng.choice((0, 1, 2, 3, now + 1, 2 * now, 255))
    else:
        inner = rng.choice(fields(now))
        old = getattr(now, inner.name)
        new = not old if isinstance(old, bool) else rng.choice((0, 1, 2, old + 1))
        what.append(f"{field.name}.{inner.name} = {new}")
        return _replaced(settings, field.name, lambda: replace(now, **{inner.name: new}))
    what.append(f"{field.name} = {value}")
    return _replaced(settings, field.name, lambda: value)


def _replaced(settings: Any, name: str, value: Callable[[], object]) -> Any:
    try:
        return replace(settings, **{name: value()})
    except ScheduleError:
        return settings


def _steps(
    base: CompiledSchedule, body: list[OpDesc], config: PipelineConfig, knobs: ScheduleConfig
) -> Iterator[str]:
    programs: list[PipelineProgram] = []

    def blocks() -> list[object]:
        programs.append(build_kernel_program(body, config, knobs))
        return [programs[0], list(programs[0].expand_to_list())]

    def phases() -> list[object]:
        found = derive_double_buffer_phases(programs[0], config, knobs, first)
        deps = derive_kernel_deps(found.kernel, config.num_partitions)
        return [found, deps, derive_warp_stagger_index(config, body, len(found.prologue))]

    def notes() -> list[object]:
        texts = [*(text for _, text in reasons(config, knobs)), *idle_limits(body, knobs)]
        return [*texts, *idle_shape(config, knobs, body, False)]

    def structure() -> list[object]:
        program = base.program
        assert program is not None
        check_complete(program, config)
        verify_schedule(program, config, knobs)
        return []

    deep = config.depth > 1
    loads = [op for op in body if op.role is OpRole.FRAGMENT_LOAD]
    first = loads[:2] if knobs.partial_prologue_drain else []
    yield from _each(lambda: [edges := derive_edges_from_ops(body, config), LoopBody(body, edges)])
    yield from _each(notes)
    if deep:
        yield from _each(lambda: [double_buffer_reorder(body, config)])
        yield from _each(structure)
        yield from _each(blocks)
        yield from _each(phases if programs else list)
    else:
        yield from _each(lambda: [single_buffer_reorder(body, config)])
        yield from _each(lambda: [optimize_within_barriers(body, config)])
        yield from _each(lambda: [derive_single_buffer_phases(body, config)])
        yield from _each(lambda: [append_amd_hints(base.kernel, body, AMDScheduleHints())])
    changed = replace(base, config=config, schedule_config=knobs)
    yield " ".join(str(disagreement(changed)).split())


def _each(step: Callable[[], list[object]]) -> Iterator[str]:
    try:
        yield digest(str(step()))
    except ScheduleError as error:
        yield " ".join(str(error).split()).partition(" hint: ")[0]


def tile_shape_rows() -> dict[str, dict[str, str]]:
    """Of tiles that are drawn: counts, limits, and whether waves fit them."""
    found: dict[str, dict[str, str]] = {"ping_pong": {}, "four_wave": {}}
    for (name, rows), number in product(found.items(), range(160)):
        rng = Random(f"{name} {number}")
        sizes = {key: rng.choice(SIDES[2:]) for key in ("BM", "BN")}
        sizes |= {"BK": rng.choice((32, 64, 128)), "MMA_M": 16, "MMA_N": 16}
        sizes |= rng.choice(({"MMA_K": 32, "elem_bytes": 2}, {"MMA_K": 128, "elem_bytes": 1}))
        if rng.random() < 0.2:
            sizes[rng.choice(list(sizes))] = rng.choice((0, 3, 4, 32))
        key = f"{number}: " + " ".join(f"{k}={v}" for k, v in sizes.items())
        try:
            rows[key] = _shape(rng, getattr(KernelGeometry, name)(**sizes))
        except ScheduleError as error:
            rows[key] = " ".join(str(error).split())
    return found


def _shape(rng: Random, shape: KernelGeometry) -> str:
    fits, pairs = [], [*product((1, 2, 4), (1, 2))]
    for counts in (0, 1):
        one = rng.choice(("vm_per_load_a", "vm_per_load_b", "lgkm_per_load_a", "lgkm_per_load_b"))
        changed: dict[str, Any] = {one: rng.choice((1, 2, 4))} if counts else {}
        other = replace(shape, **changed)
        fits += [other.fits(w, g) for w, g in product([*pairs, (2, 4)], pairs)]
    most = [shape.max_globals(grid) for grid in ((2, 4), (2, 2), (1, 1), (4, 1))]
    said = [shape.lds_bytes, shape.tile, shape.mma_name, shape.k_mmas, most]
    return f"{said}, {sum(fits)} fit, {digest(f'{shape} {fits}')}"


def instruction_rows() -> dict[str, str]:
    """The instructions of every op of schedules with and without a tile, on both chips."""
    found = {}
    for name, tile in TILES.items():
        for k, arch in product((64, 128), ("gfx950", "gfx942")):
            settings = [f"geometry.{one}" for one in (*tile[:2], f"BK={k}")]
            settings += ["geometry.MMA_K=32", "geometry.elem_bytes=2"]
            compiled = build_schedule(name, settings, sync="reference")
            own = replace(compiled, schedule="own", geometry=None)
            slow = [
                replace(op, latency=37 if op.role is OpRole.COMPUTE else 400) for op in own.body
            ]
            wide = replace(compiled, geometry=_loaded_narrowly(compiled))
            for form, one in (
                ("a tile", compiled),
                ("no tile", replace(compiled, geometry=None)),
                ("narrow loads", wide),
                ("own", own),
                ("own, slow", replace(own, body=tuple(slow))),
            ):
                found[f"{name}, {k} deep, {arch}, {form}"] = "; ".join(_each(_issues(one, arch)))
    return found


def _loaded_narrowly(compiled: CompiledSchedule) -> KernelGeometry:
    shape = compiled.geometry
    assert shape is not None
    return replace(
        shape, vm_per_load_a=4 * shape.vm_per_load_a, vm_per_load_b=4 * shape.vm_per_load_b
    )


def _issues(compiled: CompiledSchedule, arch: str) -> Callable[[], list[object]]:
    def said() -> list[object]:
        kernel = kernel_for(compiled)
        counts = InstructionCounts(compiled, target_for(arch), kernel)
        labels = Labels(compiled)
        found: list[object] = [counts.is_known, tile_text(compiled), tile_text(compiled, "fp16")]
        found += [unsynchronised_note(compiled)]
        for wave in (0, kernel.waves - 1):
            for step in kernel.walk(compiled, wave, 3):
                op = step.op
                found += [labels.of(op), labels.of(op, offset=False)]
                if not op.is_framework:
                    found.append(counts.issues(op, kernel.effect(step, wave)))
        return found

    return said

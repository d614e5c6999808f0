"""What becomes of shipped declarations with tiles that are drawn, up to times for all of their
instructions: a row for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from random import Random

from benchmarks.kernel_results import bare, digest
from pipeloom.declare import Loop, kernels
from pipeloom.declare.products import product
from pipeloom.errors import ScheduleError
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import Target
from pipeloom.order.arrange import arrange
from pipeloom.order.grains import has_vectors
from pipeloom.order.in_order import in_order
from pipeloom.order.instructions import refinable, refine, unfit
from pipeloom.order.node_tasks import lower
from pipeloom.order.patterns import (
    bound_of,
    choices,
    register_copies,
    structures,
    timed,
    unit_times,
    variations,
    woven,
)
from pipeloom.order.roles import Loading
from pipeloom.order.task_problem import loop_problem
from pipeloom.order.tasks import Lowered
from pipeloom.order.whole_instructions import whole_instructions
from pipeloom.program.meaning import Meaning
from pipeloom.program.nodes import Region
from tests.golden.rows.loops import pattern_name

EACH = 24
PATTERNS = 6
LARGEST = 120
"""Instructions of a loop: what is larger says the same and takes longer."""
ORDERED, WOVEN = 0.3, 0.05
"""So often whole programs are made, with waits and barriers."""
SIDES = (16, 16, 32, 32, 32, 48, 64, 64, 96, 128, 160)
DEPTHS = (32, 32, 64, 64, 64, 96, 128)
WAVES: tuple[int | Mapping[str, int], ...] = (
    1,
    2,
    4,
    4,
    8,
    8,
    16,
    {"m": 2, "n": 2},
    {"m": 4, "n": 2},
)
TYPES = {
    "gfx950": ("bf16", "bf16", "fp16", "fp8", "f32"),
    "gfx942": ("bf16", "fp16", "fp16", "fp8_fnuz", "f32"),
}
Make = Callable[[Random, int, int, int, str], Loop]
FAMILIES: Mapping[str, Make] = {
    "gemm": lambda _, m, n, k, dtype: kernels.gemm(m, n, k, dtype),
    "layouts": lambda rng, m, n, k, dtype: product(
        m, n, k, dtype, layout=rng.choice(("NN", "TN", "TT")), align=rng.choice((16, 16, 4, 2))
    ),
    "blocks": lambda rng, m, n, k, _: product(m, n, 4 * k, rng.choice(("fp4", "fp8")), blocks=True),
    "mixed": lambda rng, m, n, k, _: product(
        m, n, k, rng.choice(("fp8", "bf8")), dtype_b=rng.choice(("fp8", "bf8"))
    ),
    "gate": lambda _, m, n, k, dtype: kernels.gemm_gate(m, n, k, dtype),
    "norm": lambda _, m, n, k, dtype: kernels.gemm_norm(m, n, k, dtype),
    "weights": lambda rng, m, n, k, dtype: kernels.gemm_weights(
        m, n, k, rng.choice(("i4", "i8", "fp8")), group=rng.choice((0, 16, 32))
    ),
    "mx": lambda rng, m, n, k, _: kernels.gemm_mx(
        2 * m, 2 * n, rng.choice((256, 512)), shuffled=rng.random() < 0.5
    ),
    "conv": lambda rng, m, n, k, dtype: kernels.conv2d(rng.choice((16, 32, 64)), m, n, dtype=dtype),
    "experts": lambda rng, m, n, k, dtype: rng.choice(
        (kernels.grouped, kernels.moe_up, kernels.moe_down)
    )(m, n, k, dtype),
    "attention": lambda rng, m, n, k, dtype: kernels.attention(
        m, n, k, dtype=dtype, causal=rng.random() < 0.3
    ),
    "backward": lambda rng, m, n, k, dtype: rng.choice(
        (kernels.attention_backward_keys, kernels.attention_backward_queries)
    )(m, n, k, dtype),
    "decode": lambda rng, m, n, k, dtype: kernels.decode_attention(
        rng.choice((16, 8, 32)), n, k, dtype=dtype
    ),
}

CDNA4 = [FAMILIES[name] for name in ("blocks", "mixed", "mx")]
"""The older chip has none of these."""


def tile_rows(family: str) -> dict[str, str]:
    """Of a family, tile by tile: what each step towards an order gives."""
    make = FAMILIES[family]
    return {
        f"{number}: {what}": said
        for number in range(EACH)
        for what, said in [_row(make, Random(f"{family} {number}"))]
    }


def _row(make: Make, rng: Random) -> tuple[str, str]:
    m, n, k = rng.choice(SIDES), rng.choice(SIDES), rng.choice(DEPTHS)
    arch = "gfx950" if make in CDNA4 else rng.choice(("gfx950", "gfx950", "gfx942"))
    dtype, target = rng.choice(TYPES[arch]), target_for(arch)
    said: list[str] = []
    try:
        loop = whole_instructions(make(rng, m, n, k, dtype), target)
        meaning = loop.meaning
        said.append(digest(str(meaning.nodes)))
        lowered = _shared(loop, meaning, target, rng)
        said += _lowered(lowered)
        said += _in_order(loop, lowered) if rng.random() < ORDERED else []
        said += _fine(lowered, rng) if refinable(lowered) else [unfit(lowered)]
    except ScheduleError as error:
        said.append(" ".join(str(error).split()))
    return f"{m}x{n}x{k} {dtype} {arch}", "; ".join(said)


def _shared(loop: Loop, meaning: Meaning, target: Target, rng: Random) -> Lowered:
    """By the first number of waves, of those drawn, that can share the work."""
    for waves in rng.sample(WAVES, len(WAVES)):
        with suppress(ScheduleError):
            return lower(meaning, target, loop.ops, loop.staged, waves)
    return lower(meaning, target, loop.ops, loop.staged, 1)


def _lowered(lowered: Lowered) -> Iterator[str]:
    cuts = ", ".join(f"{cut.waves} x {cut.share} along {cut.dim}" for cut in lowered.shares.cuts)
    tasks = [lowered.of(region) for region in Region]
    yield f"{cuts}; {[*map(len, tasks)]} tasks, {digest(str(tasks))} {digest(str(lowered.places))}"
    problem = loop_problem(lowered)
    yield f"steps of {problem.quantum}, {digest(str(problem))}"


def _in_order(loop: Loop, lowered: Lowered) -> Iterator[str]:
    waves = sum(len(group.waves) for group in lowered.groups)
    try:
        found = arrange(loop, lowered.target, waves, strategy=in_order)
        yield f"in order {digest(bare(found.program))}, {dict(found.barrier_gaps)}"
    except ScheduleError as error:
        yield " ".join(str(error).split())


def _fine(lowered: Lowered, rng: Random) -> Iterator[str]:
    yield f"{bound_of(lowered)}, {digest(str(unit_times(lowered, 2)))}"
    space = choices(lowered)
    shapes = list(structures(lowered))
    names = str([pattern_name(shape) for shape in shapes])  # a field more changes none
    yield f"{len(shapes)} structures, {digest(str(space))} {digest(names)}"
    fine = refine(lowered, rng.choice(space["groups"]), rng.choice(list(Loading)))
    yield f"{len(fine.of(Region.LOOP))} instructions, {digest(f'{fine.tasks}{fine.places}')}"
    if len(fine.of(Region.LOOP)) > LARGEST:
        return
    for _ in range(PATTERNS):
        one = rng.choice(shapes)
        near = list(variations(one, space))
        one = rng.choice([one, *near])
        try:
            copies = "" if has_vectors(fine) else digest(str(register_copies(fine)))
            times = timed(lowered, one)
            found = times.timetable
            said = f"{found.starts} {times.loop.problem} {times.loop.barriers} {times.loop.stagger}"
            yield f"II {found.ii}, {times.late} late, {copies} {digest(said)}"
            if rng.random() < WOVEN:
                yield digest(bare(woven(lowered, one, None, times)))
        except ScheduleError as error:
            yield " ".join(str(error).split())

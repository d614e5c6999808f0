"""What each idea of the specification is worth, simulated: pairs of schedules, with and without.

python -m evidence.claims            # print
python -m evidence.claims --write    # write evidence/claims.md
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pipeloom import (
    CompiledSchedule,
    DeclarativeSchedule,
    KernelGeometry,
    Pipeline4Wave,
    ScheduleConfig,
    SchedulingStrategy,
    WarpStaggerRule,
    compile_schedule,
    mi355x_target,
    synchronize,
)
from pipeloom.drive.programs import as_program, simulate
from pipeloom.judge.verify import verify
from pipeloom.machine.chips import target_for
from pipeloom.reference.ops import Phase
from pipeloom.reference.words import tile_text
from pipeloom.show.comparison import Comparison, compare

PAGE = Path(__file__).parent / "claims.md"
K_TILES = 32
BF16 = KernelGeometry.ping_pong(BM=256, BN=256, BK=64, MMA_M=16, MMA_N=16, MMA_K=32, elem_bytes=2)
FP8 = KernelGeometry.four_wave(BM=256, BN=256, BK=128, MMA_M=16, MMA_N=16, MMA_K=128, elem_bytes=1)
CSP = ScheduleConfig(scheduling=SchedulingStrategy.CSP)
MINIMAL = replace(CSP, minimal_barriers=True)


def repaired(compiled: CompiledSchedule) -> CompiledSchedule:
    """The barriers kept, the waits derived, the fewest loads moved."""
    return synchronize(compiled, reorder=True, keep_barriers=True)


@dataclass(frozen=True, slots=True)
class Claim:
    """One idea: what was compared, how each variant is made, and which row it is set against.

    A variant is a name, a way to build it, and the number of its baseline: itself for a baseline.
    """

    title: str
    compared: str
    variants: tuple[tuple[str, Callable[[], CompiledSchedule], int], ...]
    remark: str = ""


def ping_pong(
    config: ScheduleConfig = CSP,
    *,
    stagger: bool = True,
    shape: KernelGeometry = BF16,
) -> CompiledSchedule:
    """The ping-pong for a tile shape, as its spec form builds it."""
    target = mi355x_target(shape.vm_per_load_a, shape.vm_per_load_b)
    if not stagger:
        target = target.with_pipeline(warp_stagger=WarpStaggerRule.none())
    return compile_schedule(
        DeclarativeSchedule(
            shape.is_fp8,
            shape.lgkm_per_load_a,
            shape.lgkm_per_load_b,
            config,
            target,
            geometry=shape,
        )
    )


def ordered_by(strategy: SchedulingStrategy) -> CompiledSchedule:
    """The ping-pong in a strategy's order."""
    return ping_pong(ScheduleConfig(scheduling=strategy))


def four_wave() -> CompiledSchedule:
    """The four-wave schedule with its default fp8 tile."""
    return compile_schedule(Pipeline4Wave(FP8, target=mi355x_target(4, 4)))


def without_rotation() -> CompiledSchedule:
    """The ping-pong's order on four waves: every fragment is read in the half that uses it.

    The four-wave declaration with rotation simply left out has no completion load, which the
    structure check rejects; the ping-pong's declaration is the nearest that compiles.
    """
    knobs = replace(MINIMAL, omit_mma_set_prio=True)
    return replace(ping_pong(knobs, stagger=False, shape=FP8), schedule="four_wave")


CLAIMS = (
    Claim(
        "Stagger",
        "The ping-pong with its extra barrier for one wave group, and without it "
        "(`warp_stagger` none); everything else equal.",
        (("stagger on", ping_pong, 0), ("stagger off", lambda: ping_pong(stagger=False), 0)),
        "Without it both waves of a SIMD read LDS at the same time and then want the matrix unit "
        "at the same time.",
    ),
    Claim(
        "Order: IDENTITY against GREEDY and CSP",
        "The ping-pong with each strategy. `double_buffer_reorder` has already interleaved the "
        "body when IDENTITY keeps it, and the block builder places each op by its block.",
        (
            ("CSP", ping_pong, 0),
            ("IDENTITY", lambda: ordered_by(SchedulingStrategy.IDENTITY), 0),
            ("GREEDY", lambda: ordered_by(SchedulingStrategy.GREEDY), 0),
        ),
    ),
    Claim(
        "Register rotation across stages",
        "Four waves, fp8 256x256x128. On: the four-wave schedule. Off: the ping-pong's order on "
        "the same four waves with minimal barriers and no stagger, because the four-wave "
        "declaration minus rotation has no completion load and is rejected. Both also with "
        "proven synchronisation, which takes the reference's waits out of the comparison.",
        (
            ("rotation on", four_wave, 0),
            ("rotation off", without_rotation, 0),
            ("rotation on, proven", lambda: synchronize(four_wave(), reorder=True), 2),
            ("rotation off, proven", lambda: synchronize(without_rotation(), reorder=True), 2),
        ),
    ),
    Claim(
        "Minimal barriers",
        "The ping-pong with a barrier before and after every MMA, and with `minimal_barriers`; "
        "then also without priorities (`omit_mma_set_prio`).",
        (
            ("barriers around every MMA", ping_pong, 0),
            ("minimal_barriers", lambda: ping_pong(MINIMAL), 0),
            (
                "minimal_barriers, no priorities",
                lambda: ping_pong(replace(MINIMAL, omit_mma_set_prio=True)),
                0,
            ),
            ("minimal_barriers, proven", lambda: synchronize(ping_pong(MINIMAL)), 0),
        ),
        "The knob was made for the four-wave schedule. Here it leaves no barrier in the loop, so "
        "the second wave group stands at the barrier after the prologue until the first group "
        "executes its closing one: the groups run one after the other, and nothing orders loads "
        "of one wave against reads of another.",
    ),
    Claim(
        "What a proof costs",
        "Waits and barriers of the specification (reference); the fewest barriers and loosest "
        "waits for the same order (proven); the specification's barriers with derived waits, and "
        "loads moved where that is what it takes (repaired, with reorder).",
        (
            ("ping_pong, reference", ping_pong, 0),
            ("ping_pong, proven", lambda: synchronize(ping_pong()), 0),
            ("ping_pong, repaired", lambda: repaired(ping_pong()), 0),
            ("four_wave, reference", four_wave, 3),
            ("four_wave, proven", lambda: synchronize(four_wave(), reorder=True), 3),
            ("four_wave, repaired", lambda: repaired(four_wave()), 3),
        ),
        "The ping-pong's barriers let a wave group load while the other multiplies; the fewest "
        "barriers stand elsewhere and break that alternation. Four loads moved by one block each "
        "are enough to prove it with the barriers as they are.",
    ),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A variant, compiled and simulated."""

    compiled: CompiledSchedule
    row: Comparison

    def same_entries(self, other: Measured) -> bool:
        """Whether both run the very same entries."""
        return all(self.compiled.phase(p) == other.compiled.phase(p) for p in Phase)


def measure(claim: Claim) -> tuple[Measured, ...]:
    """Simulate and verify every variant of a claim."""
    found = []
    for name, build, _ in claim.variants:
        compiled = build()
        trace = simulate(compiled, target_for("gfx950"), k_tiles=K_TILES)
        program, tile = as_program(compiled), tile_text(compiled)
        row = compare(name, program, trace, verify(program), tile=tile)
        found.append(Measured(compiled, row))
    return tuple(found)


def render() -> str:
    """The page."""
    parts = [_HEAD]
    for claim in CLAIMS:
        found = measure(claim)
        parts += [f"\n## {claim.title}\n", f"\n{claim.compared}\n\n", _table(claim, found)]
        parts.append(_reading(claim, found))
        if claim.remark:
            parts.append(f"\n{claim.remark}\n")
    return "".join(parts)


_HEAD = f"""# The specification's claims, simulated

What is each idea worth on the modelled machine (gfx950, {K_TILES} K tiles)? Cycles are per
iteration of the steady loop, which sums two K tiles; stalled is the mean over the waves of the
cycles they stood, waits for a busy matrix unit left out. How far to trust the cycles:
[performance-model.md](../docs/performance-model.md). The verdict is `pipeloom verify`'s: a schedule
that is fast and not PROVED is fast at a price.

Written by `python -m evidence.claims --write`; a test compares. `pipeloom compare` prints such
tables for schedules of your own.
"""


def _table(claim: Claim, found: tuple[Measured, ...]) -> str:
    rows = [variant.row for variant in found]
    lines = [
        "| variant | cycles | change | MFMA busy | stalled | waits | barriers | verdict "
        "| limited by | most stalled at |\n",
        "|---|---|---|---|---|---|---|---|---|---|\n",
    ]
    for number, row in enumerate(rows):
        baseline = claim.variants[number][2]
        ratio = row.cycles_per_trip / rows[baseline].cycles_per_trip
        change = "baseline" if baseline == number else f"{ratio - 1:+.1%}"
        lines.append(
            f"| {row.name} | {row.cycles_per_trip:.0f} | {change} "
            f"| {row.matrix_efficiency:.1%} | {row.stall_cycles:.0f} | {row.waits} "
            f"| {row.barriers} | {row.verdict} | {row.limiting_unit} | {row.top_stall} |\n"
        )
    return "".join(lines)


def _reading(claim: Claim, found: tuple[Measured, ...]) -> str:
    """Sentences from the numbers alone."""
    parts = []
    for number, variant in enumerate(found):
        baseline = found[claim.variants[number][2]]
        row, base = variant.row, baseline.row
        if base is row:
            continue
        if variant.same_entries(baseline):
            parts.append(f"{row.name}: the very same entries as {base.name}")
            continue
        ratio = row.cycles_per_trip / base.cycles_per_trip - 1
        if abs(ratio) < 0.0005:
            size = "as many cycles as"
        else:
            size = f"{abs(ratio):.1%} {'more' if ratio > 0 else 'fewer'} cycles than"
        order = "" if row.verdict == base.verdict else f" ({row.verdict} against {base.verdict})"
        parts.append(f"{row.name}: {size} {base.name}{order}")
    return f"\n{'; '.join(parts)}.\n"


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    arguments = parser.parse_args()
    page = render()
    if arguments.write:
        PAGE.write_text(page, "utf-8")
    else:
        print(page, end="")


if __name__ == "__main__":
    main()

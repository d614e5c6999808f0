"""The derived attention loop: cycles per two tiles, its bound, and the published loops beside it.

    python -m benchmarks.bench_attention [--causal]

One block of 256 queries in 8 waves, tiles of 64 keys, head dimension 128, bf16, gfx950: derived
without the store, proved, emitted, and its own instructions simulated in the steady loop, once as
it runs as a rule and once with every tile masked. The published four-cluster loop (fmha_v4, by the
rules of evidence/attention_streams.py) runs on the same simulator. TFLOPS are those of steady loops
on all compute units, at the clock that is printed.

Targets: 4200 cycles per two tiles (4096 are the least), 5000 masked, 256 VGPRs, 120 s.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evidence.attention_streams import attention_stream
from pipeloom.declare.kernels import attention
from pipeloom.drive.certifying import Progress
from pipeloom.drive.deriving import derive
from pipeloom.drive.store import Store
from pipeloom.judge.simulate import simulate_stream
from pipeloom.judge.verify import Status, verify
from pipeloom.machine.chips import target_for
from pipeloom.machine_code import simulate_emitted
from pipeloom.order.peel import MASKED, peel
from pipeloom.program.program import Group, Program
from pipeloom.program.steps import Step, Unit, Work
from pipeloom.write import emit_program

QUERIES, KEYS, DEPTH, WAVES, TRIPS = 256, 64, 128, 8, 6
PUBLISHED: dict[str, Any] = {"id": "fa_fav4_final_scalar", "measured": {"s_nop_issue_cycles": 16}}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--causal", action="store_true", help="with the diagonal's mask")
    chosen = parser.parse_args()
    target = target_for("gfx950")
    loop = attention(QUERIES, KEYS, DEPTH, causal=chosen.causal)

    def tell(progress: Progress) -> None:
        print(
            f"  {progress.seconds:6.1f} s  {progress.tried:3} tried  {2 * progress.cycles:8.1f}"
            f"  {progress.pattern}",
            flush=True,
        )

    start = time.perf_counter()
    found = derive(loop, target, WAVES, progress=tell, store=Store(None))
    took = time.perf_counter() - start
    if found is None:
        raise SystemExit("not woven")
    program = found.program
    start = time.perf_counter()
    kernel = emit_program(peel(program), judge=verify)
    emitting = time.perf_counter() - start
    step = program.step
    least = program.iterations.at(program.min_trips)
    tiles = least + TRIPS * step
    loops = [emit_program(one, judge=passed) for one in alone(program)]
    cycles, masked_cycles = (
        2 * simulate_emitted(one, target, tiles).steady_cycles_per_iteration / step for one in loops
    )
    published = simulate_stream(
        attention_stream(PUBLISHED), mfma="32x32x16_f16", waves_per_simd=2, stagger=True
    ).steady_cycles_per_iteration
    products = 2 * 2 * 2 * QUERIES * KEYS * DEPTH
    clock = target.clock_sustained_ghz.value
    tflops = products * target.cus.value * clock / 1000

    print(f"attention, d = {DEPTH}, bf16, gfx950, {WAVES} waves, {kernel.status.name}")
    print(f"cycles per two tiles, emitted   {cycles:8.1f}   target 4200")
    print(f"  as the search saw it          {2 * found.cycles:8.1f}")
    print(f"  bound by the {found.unit:<17} {2 * found.bound:8}")
    print(f"  every tile masked             {masked_cycles:8.1f}   target 5000")
    print(f"published four clusters         {published:8.1f}   measured 4306 to 4591")
    print(f"groups of waves                 {len(program.groups):8}")
    print(f"barriers per tile               {found.pattern.barriers:8}")
    print(f"exponentials under QK, PV       {_split(program):>8}")
    print(f"VGPRs                           {kernel.resources.vgprs:8}   target 256")
    print(f"search and proof, s             {took:8.1f}   target 120")
    print(f"proof of both loops and emit, s {emitting:8.1f}")
    print(
        f"TFLOPS of the steady loop       {tflops / cycles:8.0f}"
        f"   published loop {tflops / published:.0f}, at {clock} GHz"
    )


def alone(program: Program) -> tuple[Program, Program]:
    """The plain loop and the masked one, each as if alone: the simulator takes one loop."""
    peeled = peel(program)
    plain, masked = (
        {g.waves: next(s.steps for s in g.sections if s.trips == name) for g in peeled.groups}
        for name in (program.trips[0].name, MASKED)
    )

    def only(steps: Mapping[tuple[int, ...], tuple[Step, ...]]) -> Program:
        groups = tuple(
            Group(
                group.waves,
                tuple(
                    replace(s, steps=steps[group.waves]) if s.trips else s for s in group.sections
                ),
            )
            for group in program.groups
        )
        return program.with_groups(groups, program.provenance)

    return only(plain), only(masked)


class Passed:
    status, findings = Status.PROVED, ()


def passed(program: Program) -> Passed:
    """The whole has been proved already; these are parts of it, for their time."""
    return Passed()


def _split(program: Program) -> str:
    """Instructions of P behind products of S and of O, in the loop of one group."""
    loop = next(s for s in program.groups[0].sections if s.trips)
    node, under = "O", {"S": 0, "O": 0}
    for work in (s for s in loop.steps if isinstance(s, Work)):
        if any(i.unit is Unit.MATRIX for i in work.issues):
            node = work.node[0]
        elif work.node == "P":
            under[node] += sum(i.count for i in work.issues)
    total = sum(under.values()) or 1
    return " ".join(f"{100 * n / total:.0f}%" for n in under.values())


if __name__ == "__main__":
    main()

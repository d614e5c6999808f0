"""Many small answers at once: verdicts of random programs, and times on whole GPUs."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

from benchmarks.kernel_results import judged
from benchmarks.random_programs.declarations import random_meaning
from benchmarks.random_programs.lowering import random_plan
from pipeloom.declare.gemm_problem import Finish, GemmProblem
from pipeloom.judge.simulate.whole_gpu import Block, BlockCost, Plan, fastest, predict
from pipeloom.judge.verify import verify
from pipeloom.machine.gpus import GPUS

PROGRAMS = 18
GONE = (0.04, 0.15, 0.5)
"""The share of waits and barriers that a program lacks."""
PROBLEMS = (
    GemmProblem(4096, 4096, 4096),
    GemmProblem(256, 8192, 16384, "fp8"),
    GemmProblem(8192, 8192, 8191, layout="NT"),
    GemmProblem(512, 768, 65536, "fp16", finish=Finish(beta=True)),
    GemmProblem(16384, 16384, 32768, layout="TN", batches=2),
)
COSTS = (
    (Block(256, 256, 64), BlockCost(2060.0, 900.0, 2048.0, "matrix unit", 2, 2)),
    (Block(128, 64, 128), BlockCost(700.5, -40.0, 512.0, "LDS array", 3, 1)),
    (Block(16, 64, 128, 1, 4), BlockCost(455.0, 900.0, 64.0, "memory", 2, 5, 3, 440.0)),
)


def random_verdicts() -> dict[str, Any]:
    """What is said of random programs without some of their waits and barriers."""
    found = {}
    for seed in range(PROGRAMS):
        rng = Random(seed)
        plan = random_plan(random_meaning(rng), rng)
        share = GONE[seed % len(GONE)]
        gone = [sync.number for sync in plan.syncs if rng.random() < share]
        verdict = verify(plan.program(gone))
        shortest = verdict.shortest()
        story = [] if shortest is None else [f"{s.wave}: {s.text}" for s in shortest.story]
        found[f"seed {seed}"] = {"verdict": judged(verdict), "story": story}
    return found


def whole_gpu() -> dict[str, Any]:
    """What the model of the whole GPU says of some plans."""
    found = {}
    for gpu, problem, (block, cost) in product(GPUS[::2], PROBLEMS, COSTS):
        for split, blocked in ((1, True), (1, False), (4, True)):
            plan = Plan(block, split, blocked)
            said = predict(gpu, problem, plan, cost)
            found[f"{gpu.chip} {problem} {plan} {'blocked' if blocked else 'in order'}"] = (
                f"{said.seconds * 1e6:.6g} us and {said.gap_us:.6g}, {said.tflops:.6g} TFLOPS, "
                f"{said.clock_ghz:.6g} GHz, {said.workgroups} in {said.rounds}, {said.limit}: "
                + ", ".join(f"{name} {us:.6g}" for name, us in said.parts)
                + f"; at the peak {fastest(gpu, problem, plan, cost) * 1e6:.6g} us"
            )
    return found

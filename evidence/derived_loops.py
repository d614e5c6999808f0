"""The loops that ``derive`` finds beside the specification's: python -m evidence.derived_loops.

Prints evidence/derived-loops.md. One letter per instruction: M a matrix instruction, R an LDS
read, G a load to LDS, w a wait (with its counter and count), B a barrier; ``(M R)x8`` is that eight
times.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from pipeloom import build_schedule, emit, simulate_emitted
from pipeloom.declare.kernels import gemm
from pipeloom.drive.deriving import derive
from pipeloom.drive.programs import as_program
from pipeloom.machine.chips import target_for
from pipeloom.program import Barrier, Program, Section, Unit, Wait, Work
from pipeloom.write import emit_program
from pipeloom.write.kernel import EmittedKernel

TRIPS = 8
LETTERS = {Unit.MATRIX: "M", Unit.LDS_READ: "R", Unit.LOAD_LDS: "G"}
LONGEST = 24
"""Instructions of a repetition that is looked for."""


def letters(section: Section) -> list[str]:
    """The instructions of a loop, one by one."""
    found: list[str] = []
    for step in section.steps:
        if isinstance(step, Work):
            for issue in step.issues:
                found += [LETTERS[issue.unit]] * issue.count if issue.unit in LETTERS else []
        elif isinstance(step, Wait):
            found.append(f"w{step.counter[0]}{step.count}")
        elif isinstance(step, Barrier):
            found.append("B")
    return found


def folded(items: Sequence[str]) -> list[str]:
    """Repetitions written once, the longest stretch first at every place; runs as ``M4``."""
    found: list[str] = []
    at = 0
    while at < len(items):
        best = (1, 1)
        for size in range(1, LONGEST + 1):
            times = 1
            while items[at + times * size : at + (times + 1) * size] == items[at : at + size]:
                times += 1
            if times > 1 and times * size > best[0] * best[1]:
                best = (size, times)
        size, times = best
        once = items[at : at + size]
        if size == 1:
            found.append(once[0] + (str(times) if times > 1 else ""))
        else:
            inner = " ".join(folded(list(once)))
            found.append(f"({inner})x{times}")
        at += size * times
    return found


def shown(title: str, program: Program, emitted: EmittedKernel) -> list[str]:
    """A loop's figures and its instructions, group by group."""
    least = program.iterations.at(program.min_trips)
    step = sum(factor for _, factor in program.iterations.factors)
    trace = simulate_emitted(emitted, program.target, least + TRIPS * step)
    busy = 100 * max(trace.steady_matrix_efficiency())
    loops = [next(s for s in g.sections if s.trips is not None) for g in program.groups]
    barriers = sum(isinstance(s, Barrier) for s in loops[0].steps) / step
    lines = [
        f"### {title}",
        "",
        f"{trace.steady_cycles_per_iteration / step:.0f} cycles per K tile, matrix unit "
        f"{busy:.1f} % busy, {barriers:g} barrier(s) per K tile, {len(loops)} group(s) of waves, "
        f"{trace.prologue_cycles} cycles before the loop and {trace.epilogue_cycles} behind it.",
        "",
    ]
    for number, loop in enumerate(loops):
        whole = letters(loop)
        text = " ".join(folded(whole[: len(whole) // step]))
        lines += ["```", *textwrap.wrap(f"group {number}: {text}", 110), "```"]
    return [*lines, ""]


def main() -> None:
    """Print the page."""
    target = target_for("gfx950")
    tile = {"BK": 64, "MMA_K": 32, "elem_bytes": 2}
    lines = ["# Derived loops beside the specification's", ""]
    lines += [
        "256x256x64 bf16 on gfx950: figures from the emitted instructions, first K tile of a trip."
    ]
    lines += [
        "`pipeloom derive ... -o p.json` and `pipeloom report p.json` show either in full.",
        "",
    ]
    lines += [*__doc__.splitlines(), ""]
    for waves, name in ((8, "ping_pong"), (4, "four_wave")):
        found = derive(gemm(256, 256, 64), target, waves)
        assert found is not None
        lines += [f"## {waves} waves", ""]
        lines += shown("Derived", found.program, emit_program(found.program))
        spec = build_schedule({"schedule": name, "geometry": tile}, sync="repaired", reorder=True)
        lines += shown(f"The specification's {name}", as_program(spec), emit(spec))
    print("\n".join(lines).rstrip())


if __name__ == "__main__":
    main()

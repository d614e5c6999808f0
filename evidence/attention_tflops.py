"""TFLOPS of whole attention problems on gfx950, from emitted instructions, beside published ones.

    python -m evidence.attention_tflops [--write]     # the table of docs/attention.md

The derived loop (d = 128, bf16, 8 waves of 32 queries, tiles of 64 keys) is emitted and simulated:
what a block takes beyond its tiles, and what a plain and a masked tile take. A problem is then its
blocks, dealt to XCDs in turn in the order of the grid, each started on the unit of its XCD that is
free first. Causal blocks have unequal numbers of tiles: those with most to do start first, of all
heads. Four tiles of a causal block are masked. Memory is taken to keep up, the clock to stay at
what is printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapreplace
from pathlib import Path

from benchmarks.bench_attention import DEPTH, KEYS, QUERIES, TRIPS, WAVES, alone, passed
from pipeloom.declare.kernels import attention
from pipeloom.drive.deriving import derive
from pipeloom.machine.chips import target_for
from pipeloom.machine_code import simulate_emitted
from pipeloom.write import emit_program

PAGE = Path(__file__).parents[1] / "docs" / "attention.md"
BEGIN, END = "<!-- attention_tflops -->", "<!-- end -->"
MASKED = QUERIES // KEYS
"""Tiles of a causal block that the diagonal may cross."""
BACKWARD_TILE = 32
"""Queries, or keys, of an iteration of a loop of the backward pass."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A published one, with its TFLOPS, full and causal (None where nobody says)."""

    kernel: str
    batch: int
    heads: int
    length: int
    full: int | None
    causal: int | None


PUBLISHED = (  # ATTENTION.md, section 1
    Problem("AITER asm", 4, 64, 8192, 1390, 1278),
    Problem("AITER asm", 1, 16, 16384, 1333, 1231),
    Problem("HipKittens", 16, 16, 16384, 1304, 1188),
    Problem("HipKittens", 16, 16, 4096, 1228, 1048),
    Problem("HipKittens", 16, 16, 1024, 953, 634),
    Problem("Gluon fmha_v4", 32, 8, 8192, 1285, None),
)


@dataclass(frozen=True, slots=True)
class Block:
    """Cycles of one workgroup: ``fixed``, and per tile."""

    fixed: float
    plain: float
    masked: float

    def cycles(self, tiles: int, masked: int) -> float:
        """Of a block with so many tiles, some of them masked."""
        return self.fixed + (tiles - masked) * self.plain + masked * self.masked


def measured(*, causal: bool) -> Block:
    """By simulation of what is emitted."""
    target = target_for("gfx950")
    found = derive(attention(QUERIES, KEYS, DEPTH, causal=causal), target, WAVES)
    if found is None:
        raise SystemExit("not woven")
    program = found.program
    tiles = program.iterations.at(program.min_trips) + TRIPS * program.step
    plain, masked = (
        simulate_emitted(emit_program(one, judge=passed), target, tiles) for one in alone(program)
    )
    per_tile = plain.steady_cycles_per_iteration / program.step
    return Block(
        plain.total_cycles - tiles * per_tile,
        per_tile,
        masked.steady_cycles_per_iteration / program.step,
    )


def finished(blocks: Sequence[float], units: int, xcds: int) -> float:
    """When the last block is done."""
    last = 0.0
    for xcd in range(xcds):
        free = [0.0] * (units // xcds)
        for cycles in blocks[xcd::xcds]:
            heapreplace(free, free[0] + cycles)
        last = max(last, *free)
    return last


def tflops(problem: Problem, block: Block, *, causal: bool) -> tuple[float, float]:
    """TFLOPS, and the share of them that equal work on every unit would give."""
    target = target_for("gfx950")
    units, xcds = target.cus.value, target.xcds.value
    count, tiles = problem.length // QUERIES, problem.length // KEYS
    heads = problem.batch * problem.heads
    lengths = [tiles] * count
    if causal:
        lengths = [MASKED * (n + 1) for n in reversed(range(count))]
    each = [block.cycles(n, MASKED if causal else 0) for n in lengths]
    blocks = [cycles for cycles in each for _ in range(heads)]
    total = finished(blocks, units, xcds)
    flops = 4 * heads * problem.length**2 * DEPTH / (2 if causal else 1)
    clock = target.clock_sustained_ghz.value
    return flops * clock / total / 1000, sum(blocks) / units / total


def table(full: Block, causal: Block) -> list[str]:
    """Lines of the page."""
    clock = target_for("gfx950").clock_sustained_ghz.value
    lines = [
        f"TFLOPS at {clock} GHz, by `python -m evidence.attention_tflops`, a model of the derived",
        f"loop: {full.plain:.0f} cycles per tile and {full.fixed:.0f} per block; causal"
        f" {causal.plain:.0f} per plain tile,",
        f"{causal.masked:.0f} per masked one and {causal.fixed:.0f} per block.",
        "In brackets, how even the work of the compute units is. Published figures were measured,",
        "at clocks of their own; ours are modelled, with memory that keeps up: no GPU ran them.",
        "",
        "| batch, heads, length | full | causal | published full | causal | kernel |",
        "|---|---|---|---|---|---|",
    ]
    for one in PUBLISHED:
        cells = [f"{one.batch}, {one.heads}, {one.length}"]
        for block in (full, causal):
            found, even = tflops(one, block, causal=block is causal)
            cells.append(f"{found:.0f} ({even:.0%})")
        cells += ["-" if n is None else str(n) for n in (one.full, one.causal)]
        lines.append(f"| {' | '.join(cells)} | {one.kernel} |")
    return lines


def main() -> None:
    """Print the table, and put it into the page if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="into docs/attention.md")
    chosen = parser.parse_args()
    lines = table(measured(causal=False), measured(causal=True))
    print("\n".join(lines))
    if chosen.write:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        after = rest.split(END)[1]
        PAGE.write_text("\n".join([before + BEGIN, *lines, END]) + after, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Evidence for the emitter: every kernel under many timings, and every wait of a few of them.

    python benchmarks/emit_evidence.py matrix  [--seeds 20] [--output docs/emitted-matrix.md]
    python benchmarks/emit_evidence.py mutants [--seeds 50] [--output docs/emitted-mutants.md]

With ``--only SCHEDULE ...`` other kernels are left out; their rows in the output of ``matrix`` stay
as they are.

matrix: for each kernel trip counts 0, 1, 2 and 5; M and N the whole tile or ragged; each with seeds
of its own (data, timing of memory, order of waves). Integer data must come out exactly.

mutants: each weakening of a proved schedule that the verifier calls unsafe is emitted all the same
and run; does the emulator notice?
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pipeloom import compile_schedule
from pipeloom.compiled import CompiledSchedule
from pipeloom.emit import (
    EmittedKernel,
    assemble,
    chip_for,
    emit_kernel,
    single_buffer_costs,
    single_buffer_geometry,
)
from pipeloom.geometry import KernelGeometry
from pipeloom.kernels import Kernel
from pipeloom.schedules.four_wave import FourWaveSpec
from pipeloom.schedules.gemm_tile import GemmTileSpec, TileSpec
from pipeloom.schedules.ping_pong import PingPongSpec
from pipeloom.schedules.single_buffer import SingleBufferSchedule
from pipeloom.schedules.spec_parts import GeometrySpec
from pipeloom.synchronize import synchronize
from pipeloom.targets.mi355x import mi355x_single_buffer_target
from pipeloom.trial import Data, Launchable, run_gemm
from pipeloom.verify import Status, verify
from pipeloom.weaken import weakenings

K_STEPS = 2
_SIZE = {"bf16": 2, "fp16": 2, "fp8": 1}
MODULO = {"gemm_tile": "four_wave", "gemm_tile_ping_pong": "ping_pong"}
"""Schedule -> the wave grid it is for."""


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel: BM x BN x BK with side x side x depth matrix instructions."""

    schedule: str
    target: str
    dtype: str
    BM: int
    BN: int
    BK: int
    side: int
    depth: int

    @property
    def tile(self) -> str:
        """``256x256x64, 16x16x32``."""
        return f"{self.BM}x{self.BN}x{self.BK}, {self.side}x{self.side}x{self.depth}"

    def geometry(self) -> KernelGeometry | None:
        """The tile of a schedule that is compiled without one."""
        if self.schedule != "single_buffer":
            return None
        return single_buffer_geometry(
            chip_for(self.target), self.dtype, BM=self.BM, BN=self.BN, BK=self.BK, side=self.side
        )

    def compile(self) -> CompiledSchedule:
        """The schedule as declared, not yet synchronised."""
        if self.schedule == "single_buffer":
            geometry = self.geometry()
            assert geometry is not None
            target = mi355x_single_buffer_target().with_pipeline(
                **single_buffer_costs(geometry, k_steps=K_STEPS)
            )
            return compile_schedule(SingleBufferSchedule(K_STEPS, target=target))
        if self.schedule in MODULO:
            modulo = TileSpec(
                BM=self.BM,
                BN=self.BN,
                BK=self.BK,
                MMA_M=self.side,
                MMA_N=self.side,
                MMA_K=self.depth,
                elem_bytes=_SIZE[self.dtype],
            )
            kernel = MODULO[self.schedule]
            return compile_schedule(
                GemmTileSpec(kernel=kernel, arch=self.target, geometry=modulo).build()
            )
        tile = GeometrySpec(
            BM=self.BM,
            BN=self.BN,
            BK=self.BK,
            MMA_M=self.side,
            MMA_N=self.side,
            MMA_K=self.depth,
            elem_bytes=_SIZE[self.dtype],
        )
        spec = PingPongSpec if self.schedule == "ping_pong" else FourWaveSpec
        return compile_schedule(spec(geometry=tile).build())

    def proved(self) -> CompiledSchedule:
        """With all the synchronisation it needs; a modulo schedule has it by construction."""
        compiled = self.compile()
        return compiled if self.schedule in MODULO else synchronize(compiled)

    def emit(self, out_dtype: str | None = None) -> EmittedKernel:
        """The kernel, from the synchronised schedule."""
        return emit_kernel(
            self.proved(),
            target=self.target,
            dtype=self.dtype,
            out_dtype=out_dtype,
            geometry=self.geometry(),
        )


def cases() -> Iterator[Case]:
    """All of them."""
    for schedule in ("ping_pong", "four_wave", *MODULO):
        for dtype in ("bf16", "fp16"):
            yield Case(schedule, "gfx950", dtype, 128, 128, 64, 16, 32)
            yield Case(schedule, "gfx950", dtype, 256, 128, 64, 16, 32)
            yield Case(schedule, "gfx950", dtype, 128, 256, 64, 32, 16)
            yield Case(schedule, "gfx950", dtype, 256, 256, 64, 16, 32)
        yield Case(schedule, "gfx950", "fp8", 128, 128, 128, 16, 128)
        yield Case(schedule, "gfx950", "fp8", 128, 256, 128, 32, 64)
        yield Case(schedule, "gfx950", "fp8", 256, 256, 128, 16, 128)
    for target in ("gfx942", "gfx950"):
        depths = {16: 16, 32: 8} if target == "gfx942" else {16: 32, 32: 16}
        for dtype in ("bf16", "fp16"):
            yield Case("single_buffer", target, dtype, 64, 64, 64, 16, depths[16])
            yield Case("single_buffer", target, dtype, 128, 64, 64, 32, depths[32])
            yield Case("single_buffer", target, dtype, 128, 128, 64, 16, depths[16])
        bk, depths = (128, {16: 32, 32: 16}) if target == "gfx942" else (256, {16: 128, 32: 64})
        yield Case("single_buffer", target, "fp8", 64, 64, bk, 16, depths[16])
        yield Case("single_buffer", target, "fp8", 64, 128, bk, 32, depths[32])
        yield Case("single_buffer", target, "fp8", 128, 128, bk, 16, depths[16])


TRIPS = (0, 1, 2, 5)
RAGGED = (5, 3)


@dataclass(frozen=True)
class Row:
    """One kernel's runs."""

    case: Case
    out_dtype: str
    resources: str
    runs: int
    failures: tuple[str, ...]
    seconds: float


def run_case(case: Case, seeds: int) -> Row:
    """All runs of one kernel: odd seeds are ragged, and one run of each has normal data."""
    emitted = case.emit()
    ready = Launchable.load(emitted, assemble(emitted))
    started = time.perf_counter()
    failures = []
    runs = 0
    for trips in TRIPS:
        for seed in range(seeds):
            less = RAGGED if seed % 2 else (0, 0)
            trial = run_gemm(
                emitted,
                ready,
                M=case.BM - less[0],
                N=case.BN - less[1],
                K=emitted.k_min + trips * emitted.k_step,
                seed=1000 * trips + seed,
                data=Data.NORMAL if seed == 2 else Data.INTEGERS,
            )
            runs += 1
            if not trial.ok:
                failures.append(trial.summary())
    return Row(
        case,
        emitted.out_dtype,
        str(emitted.resources),
        runs,
        tuple(failures),
        time.perf_counter() - started,
    )


FIRST_CELLS = 4
"""Kernel, target, types, tile; then the numbers of runs and of failures."""


def kept_rows(page: Path | None, ran: Sequence[Case]) -> list[str]:
    """The rows of kernels in an earlier page that are not run again."""
    if page is None or not page.exists():
        return []
    names = {case.schedule for case in ran} | {"kernel"}
    return [
        line
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and line.split(" | ")[0].removeprefix("| ") not in names
    ]


def matrix_page(rows: list[Row], seeds: int, kept: Sequence[str] = ()) -> str:
    """The page; ``kept`` are rows of kernels that were run before."""
    before = [line.split(" | ")[FIRST_CELLS : FIRST_CELLS + 2] for line in kept]
    runs = sum(int(cells[0]) for cells in before) + sum(row.runs for row in rows)
    failed = sum(int(cells[1]) for cells in before) + sum(len(row.failures) for row in rows)
    lines = [
        "# What was run",
        "",
        "Generated by `benchmarks/emit_evidence.py matrix`: each kernel below was emitted from a "
        f"proved schedule, assembled, and run in the emulator with trip counts {TRIPS}, {seeds} "
        "seeds each (timing of memory, order of waves, data), half of them with M and N ragged (5 "
        "rows and 3 columns short of the tile). Integer data is compared exactly; one seed of each "
        "has normal data, compared within the rounding of the types. A run passes with no finding, "
        "every element right and nothing written outside C.",
        "",
        f"{runs} runs, {failed} failed.",
        "",
        "| kernel | target | types | tile, instruction | runs | failed | resources |",
        "|---|---|---|---|---|---|---|",
        *kept,
    ]
    for row in rows:
        case = row.case
        lines.append(
            f"| {case.schedule} | {case.target} | {case.dtype} to {row.out_dtype} | {case.tile} | "
            f"{row.runs} | {len(row.failures)} | {row.resources.rsplit(' on ', 1)[0]} |"
        )
    for row in rows:
        lines += [f"- {row.case}: {text}" for text in row.failures]
    return "\n".join(lines) + "\n"


WEAKENED = (
    Case("ping_pong", "gfx950", "bf16", 256, 256, 64, 16, 32),
    Case("ping_pong", "gfx950", "bf16", 128, 128, 64, 16, 32),
    Case("four_wave", "gfx950", "bf16", 128, 128, 64, 16, 32),
    Case("single_buffer", "gfx942", "bf16", 64, 64, 64, 16, 16),
    Case("gemm_tile", "gfx950", "bf16", 128, 128, 64, 16, 32),
    Case("gemm_tile_ping_pong", "gfx950", "bf16", 128, 128, 64, 16, 32),
)


@dataclass
class Waved:
    """A verdict that lets anything through."""

    status: Status = Status.PROVED
    findings: Sequence[object] = ()


def wave_through(compiled: CompiledSchedule, kernel: Kernel) -> Waved:
    """In place of the verifier."""
    return Waved()


@dataclass
class Tally:
    """What became of one kernel's weakenings."""

    harmless: list[str] = field(default_factory=list)
    noticed: int = 0
    first_seed: int = 0
    missed: list[str] = field(default_factory=list)

    @property
    def unsafe(self) -> int:
        return self.noticed + len(self.missed)


def weaken_case(case: Case, seeds: int) -> Tally:
    """Weaken, emit, run."""
    tally = Tally()
    for weakened in weakenings(case.proved()):
        if verify(weakened.compiled).status is Status.PROVED:
            tally.harmless.append(weakened.what)
            continue
        emitted = emit_kernel(
            weakened.compiled,
            target=case.target,
            dtype=case.dtype,
            geometry=case.geometry(),
            judge=wave_through,  # type: ignore[arg-type]
        )
        ready = Launchable.load(emitted, assemble(emitted))
        for seed in range(seeds):
            depth = emitted.k_min + (2, 0, 1)[seed % 3] * emitted.k_step
            if not run_gemm(emitted, ready, M=case.BM, N=case.BN, K=depth, seed=seed).ok:
                tally.noticed += 1
                tally.first_seed += seed == 0
                break
        else:
            tally.missed.append(weakened.what)
    return tally


def mutants_page(results: Sequence[tuple[Case, Tally]], seeds: int) -> str:
    """The page."""
    lines = [
        "# Weakened kernels",
        "",
        "Generated by `benchmarks/emit_evidence.py mutants`. Each wait of a proved schedule is "
        "loosened by one entry and deleted, each barrier deleted. Of those that the verifier "
        f"calls unsafe: how many does the emulator notice within {seeds} seeds?",
        "",
        "| kernel | target | tile | weakened | still proved | unsafe | noticed | by the first seed "
        "|",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case, tally in results:
        total = tally.unsafe + len(tally.harmless)
        lines.append(
            f"| {case.schedule} | {case.target} | {case.tile} {case.dtype} | {total} | "
            f"{len(tally.harmless)} | {tally.unsafe} | {tally.noticed} "
            f"({100 * tally.noticed / max(tally.unsafe, 1):.1f} %) | {tally.first_seed} |"
        )
    for case, tally in results:
        if tally.missed:
            lines += ["", f"Not noticed in {case.schedule}, {case.tile}:", ""]
            lines += [f"- {what}" for what in tally.missed]
        if tally.harmless:
            lines += ["", f"Still proved in {case.schedule}, {case.tile}:", ""]
            lines += [f"- {what}" for what in tally.harmless]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("what", choices=["matrix", "mutants"])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", nargs="+", metavar="SCHEDULE")
    given = parser.parse_args()

    def chosen(case: Case) -> bool:
        return given.only is None or case.schedule in given.only

    with ProcessPoolExecutor(given.workers) as pool:
        if given.what == "matrix":
            seeds, every = given.seeds or 20, list(filter(chosen, cases()))
            kept = kept_rows(given.output, every)
            rows = []
            for row in pool.map(run_case, every, [seeds] * len(every)):
                rows.append(row)
                verdict = "FAILED" if row.failures else "ok"
                print(f"{row.case}: {row.runs} runs {verdict}, {row.seconds:.0f} s", flush=True)
                if given.output:
                    given.output.write_text(matrix_page(rows, seeds, kept), encoding="utf-8")
            page = matrix_page(rows, seeds, kept)
        else:
            seeds = given.seeds or 50
            tallies = []
            every = list(filter(chosen, WEAKENED))
            for case, tally in zip(
                every, pool.map(weaken_case, every, [seeds] * len(every)), strict=True
            ):
                tallies.append((case, tally))
                print(f"{case}: {tally.noticed} of {tally.unsafe} noticed", flush=True)
            page = mutants_page(tallies, seeds)
    if given.output:
        given.output.write_text(page, encoding="utf-8")
    else:
        print(page)


if __name__ == "__main__":
    main()

"""Judged both ways: weaken every wait and barrier of a kernel, one by one.

    python -m benchmarks.check_mutants [--only TEXT] [--output FILE]

For every weakening the judge of recorded runs (`pipeloom.judge.check`) says, without running it,
whether the verdict gets worse. The weakened code is then run in the emulator, under timings
directed at what the judge names and under others, and its numbers are compared with those of the
kernel as it is. *Missed* is a wrong number that the judge did not foresee; there must be none. A
*false alarm* is a finding that no timing tried brings about; each is listed, with what is behind
it.

A wait loses one of its counts (vmcnt or lgkmcnt) or lets one more operation pass; a barrier goes.
Kernels are our own, Triton's (compiled here, no GPU needed), small ones in assembly and, where
``PIPELOOM_AITER`` names a checkout of ROCm/aiter, three of its hand-written ones.
"""

from __future__ import annotations

import argparse
import os
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")


from benchmarks.check_kernels import CASES, skipped
from pipeloom.drive.checking import differing
from pipeloom.drive.kernel_files import Array, Start
from pipeloom.judge.check.prepared import Prepared, study
from pipeloom.judge.check.record import Recorder
from pipeloom.judge.check.retirement import SyncPlan
from pipeloom.judge.emulate import CodeKernel, Directed, EmulateError, Timing, run_kernel
from pipeloom.judge.emulate.disassembly import instruction_text
from pipeloom.judge.emulate.pending import COUNTER_LIMIT, WaitCounts

_S_NOP = 0xBF800000
_S_WAITCNT = 0xBF8C0000
_EXP = 7 << 4
BARRIER = "s_barrier goes"


@dataclass(frozen=True)
class Weakening:
    """One change of one instruction, in the code and in what the judge is told."""

    at: int
    pc: int
    text: str
    word: int
    sync: SyncPlan


@dataclass
class Outcome:
    """What became of the weakenings of one kernel."""

    name: str
    total: int = 0
    foreseen: int = 0
    harmless: int = 0
    missed: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)
    seconds: float = 0.0


def weakenings(found: Prepared) -> Iterator[Weakening]:
    """Every wait and barrier that the run executed, weakened in every way."""
    for at in sorted(found.executed):
        one = found.program[at].instruction
        if at in found.sync.barriers:
            yield Weakening(at, one.pc, BARRIER, _S_NOP, found.sync.without_barrier(at))
        elif at in found.sync.waits:
            counts = found.sync.waits[at]
            for queue, limit in COUNTER_LIMIT.items():
                count = counts.counts[queue]
                if count >= limit:
                    continue
                for looser in sorted({limit, min(count + 1, limit)}):
                    weak = WaitCounts({**counts.counts, queue: looser})
                    text = f"{instruction_text(one)} -> {weak.text() if weak.waits else 'nothing'}"
                    yield Weakening(at, one.pc, text, _encode(weak), found.sync.with_wait(at, weak))


def _encode(counts: WaitCounts) -> int:
    vm, lgkm = counts.counts.values()
    return _S_WAITCNT | vm & 15 | (vm & 0x30) << 10 | _EXP | lgkm << 8


def weakened(kernel: CodeKernel, change: Weakening) -> CodeKernel:
    """The kernel with one instruction replaced."""
    code = bytearray(kernel.code)
    struct.pack_into("<I", code, change.pc, change.word)
    return replace(kernel, code=bytes(code))


def run(
    kernel: CodeKernel, start: Start, timing: Timing | Directed, seed: int, limit: int
) -> list[Array]:
    """What the kernel's arrays hold after a run; nothing where the run breaks down."""
    args, arrays = start.fresh()
    try:
        run_kernel(
            kernel,
            grid=start.grid,
            block=start.block,
            args=args,
            dynamic_lds=start.dynamic_lds,
            timing=timing,
            seed=seed,
            check_races=False,
            check_wait_states=False,
            max_findings=100_000,
            max_instructions=limit,
        )
    except EmulateError:
        return []
    return arrays


def foresee(found: Prepared, change: Weakening) -> list[tuple[int, int, int, int]]:
    """(first pc, first wave, second pc, second wave) of pairs that the change leaves unordered."""
    pairs: dict[tuple[int, int], tuple[int, int, int, int]] = {}
    for group, base in zip(found.groups, found.unordered(), strict=True):
        late = group.order.unordered(change.sync) & ~base
        if not late.any():
            continue
        paths = [line.path for line in group.order.timelines]
        for v, x, w, y in group.pairs.take(late).oriented().rows()[:, :4].tolist():
            places = int(paths[v][x]), int(paths[w][y])
            pcs = [found.program[place].instruction.pc for place in places]
            pairs.setdefault((pcs[0], pcs[1]), (pcs[0], v, pcs[1], w))
    return list(pairs.values())


def timings(pairs: Sequence[tuple[int, int, int, int]]) -> Iterator[tuple[Timing | Directed, int]]:
    """Timings directed at these pairs, then others."""
    for first, v, second, w in pairs[:6]:
        held = frozenset({first})
        if v == w:
            yield Directed(held), 0
            yield Directed(held, release=second), 0
            yield Directed(held, (v,), (), second), 0
        else:
            yield Directed(held, (w,), (v,)), 0
            yield Directed(held, (v,), (w,)), 0
            yield Directed(held, (v,), (w,), second), 0
            yield Directed(held | {second}, (w,), (v,)), 0
    yield Timing.LATE, 0
    yield Timing.LATE, 1
    for seed in range(2, 11 if pairs else 7):
        yield Timing.RANDOM, seed


@dataclass(frozen=True)
class Recorded:
    """A kernel as it is, recorded, and what its arrays then hold."""

    kernel: CodeKernel
    start: Start
    found: Prepared
    wanted: Sequence[Array]
    rounding: bool
    """Whether atomics may add in another order."""
    limit: int
    """A weakened kernel that issues more does not end."""

    @classmethod
    def of(cls, kernel: CodeKernel, start: Start) -> Recorded:
        """One run, as early as can be."""
        recorder = Recorder(kernel)
        args, wanted = start.fresh()
        result = run_kernel(
            kernel,
            grid=start.grid,
            block=start.block,
            args=args,
            dynamic_lds=start.dynamic_lds,
            timing=Timing.EARLY,
            check_races=False,
            check_wait_states=False,
            observer=recorder,
        )
        rounding = any("atomic" in one for one in result.instructions)
        return cls(kernel, start, study(recorder), wanted, rounding, 4 * result.executed + 1000)

    def barriers_met(self, sync: SyncPlan) -> bool:
        """Whether all waves pass as many barriers."""
        return all(group.order.barriers_met(sync) for group in self.found.groups)

    def shown_wrong(
        self, mutant: CodeKernel, pairs: Sequence[tuple[int, int, int, int]]
    ) -> tuple[Timing | Directed, int] | None:
        """The first timing and seed by which a mutant gives other numbers, or breaks down."""
        for timing, seed in timings(pairs):
            arrays = run(mutant, self.start, timing, seed, self.limit)
            both = zip(arrays, self.wanted, strict=True) if arrays else ()
            if not arrays or any(differing(a, b, self.rounding) for a, b in both):
                return timing, seed
        return None


def judge_both_ways(name: str, kernel: CodeKernel, start: Start) -> Outcome:
    """Weaken one kernel in every way."""
    began = time.perf_counter()
    outcome = Outcome(name)
    recorded = Recorded.of(kernel, start)
    found = recorded.found
    met = recorded.barriers_met(found.sync)
    for change in weakenings(found):
        outcome.total += 1
        pairs = foresee(found, change)
        still_met = recorded.barriers_met(change.sync)
        worse = bool(pairs) or (met and not still_met)
        shown = recorded.shown_wrong(weakened(kernel, change), pairs)
        where = f"{name}, pc {change.pc:#x}: {change.text}"
        if worse and (shown or (met and not still_met)):
            outcome.foreseen += 1
        elif worse:
            names = [
                " | ".join(_named(found, pc) for pc in (first, second))
                for first, _, second, _ in pairs[:2]
            ]
            outcome.alarms.append(f"{where}; unordered: {'; '.join(names)}")
        elif shown:
            outcome.missed.append(f"{where}; shown by {shown}")
        else:
            outcome.harmless += 1
    outcome.seconds = time.perf_counter() - began
    return outcome


def _named(found: Prepared, pc: int) -> str:
    step = next(s for s in found.program if s.instruction.pc == pc)
    return f"{pc:#x} {instruction_text(step.instruction)}"


def page(outcomes: Sequence[Outcome]) -> str:
    """The result as Markdown."""
    lines = [
        "| kernel | weakenings | foreseen, shown | harmless, said so | missed | false alarms | s |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in outcomes:
        lines.append(
            f"| {one.name} | {one.total} | {one.foreseen} | {one.harmless} | {len(one.missed)} "
            f"| {len(one.alarms)} | {one.seconds:.0f} |"
        )
    totals = [
        sum(o.total for o in outcomes),
        sum(o.foreseen for o in outcomes),
        sum(o.harmless for o in outcomes),
        sum(len(o.missed) for o in outcomes),
        sum(len(o.alarms) for o in outcomes),
    ]
    lines.append(
        f"| all | {' | '.join(map(str, totals))} | {sum(o.seconds for o in outcomes):.0f} |"
    )
    for title, found in (
        ("Missed", [text for o in outcomes for text in o.missed]),
        ("False alarms", [text for o in outcomes for text in o.alarms]),
    ):
        if found:
            lines += ["", f"## {title}", "", *(f"- {text}" for text in found)]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    outcomes = []
    for name, make in CASES.items():
        if options.only in name and (reason := skipped(name)):
            print(f"{name}: skipped, {reason}", flush=True)
        elif options.only in name:
            outcomes.append(judge_both_ways(name, *make()))
            print(page(outcomes[-1:]), flush=True)
    text = page(outcomes)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")
    return int(any(one.missed for one in outcomes))


if __name__ == "__main__":
    raise SystemExit(main())

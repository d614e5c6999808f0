"""What the judge of recorded runs says of kernels whose waits are weakened: a row for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks.check_kernels import CASES
from benchmarks.check_mutants import weakened, weakenings
from benchmarks.kernel_results import digest
from pipeloom.drive.checking import CheckEffort, check_start
from pipeloom.drive.kernel_files import KernelFile, Start
from pipeloom.judge.check.prepared import study
from pipeloom.judge.check.record import Recorder
from pipeloom.judge.check.verdict import CheckFinding
from pipeloom.judge.emulate import CodeKernel, Timing
from tests.unit.judge.check import test_check_data as data
from tests.unit.judge.check import test_check_loops as loops
from tests.unit.judge.conftest import Bench

KERNELS = ("by hand, one buffer", "by hand, two buffers")
EFFORT = CheckEffort(seeds=1, shown=1)


def checked_rows() -> dict[str, dict[str, Any]]:
    """Each kernel as it is, and with every wait and barrier weakened."""
    for wheel in ("ziglang", "tinygrad"):
        pytest.importorskip(wheel)
    found = {}
    for name in KERNELS:
        kernel, start = CASES[name]()
        rows = {"as it is": _said(kernel, start)}
        recorder = Recorder(kernel)
        start.run(kernel, timing=Timing.EARLY, observer=recorder)
        for change in weakenings(study(recorder)):
            rows[f"{change.pc:#x} {change.text}"] = _said(weakened(kernel, change), start)
        found[name] = rows
    return found


def looping_rows() -> dict[str, dict[str, Any]]:
    """Loops of one kernel each, whose trips differ, or whose lanes and ways out data decide."""
    for wheel in ("ziglang", "tinygrad"):
        pytest.importorskip(wheel)
    bench, found = Bench(), {}
    for name, body, given in _loops():
        args = [np.asarray(given, np.uint32), np.zeros(128, np.uint32)]
        start = Start((1,), (128,), args, 0)
        found[name] = _said(bench.code(body, lds=1024).kernel(), start)
    return found


def _loops() -> Iterator[tuple[str, str, Any]]:
    numbers = np.arange(128)
    zeros = "  s_mov_b64 s[10:11], 0\n  s_mov_b64 s[12:13], 0"
    counted = loops.LOOP.replace("  s_mov_b32 s9, 0", zeros).replace("s9, v", "0, v")
    for name, text, more in (
        ("one buffer", loops.LOOP, ""),
        ("two buffers in turn", loops.LOOP, loops.IN_TURN),
        ("left in its midst", loops.LEAVING, "s_barrier"),
        ("reads at first", counted, loops.AT_FIRST.format(then=1)),
        ("reads always", counted, loops.AT_FIRST.format(then=0)),
        ("masked from a trip on", loops.COUNTING, loops.MASK.format(trip=3, masked="s_nop 0")),
        (
            "waits from a trip on",
            loops.COUNTING,
            loops.MASK.format(trip=100, masked="s_waitcnt lgkmcnt(0)"),
        ),
    ):
        yield name, text.format(trips=5, more=more), numbers
    for name, how in (("saved", data.SAVED), ("moved", data.MOVED)):
        for what, given in (("zeros", data.ZEROS), ("numbers", data.NUMBERS)):
            yield f"lanes that data switch on, {name}, {what}", data.MASKED.format(**how), given


def _said(kernel: CodeKernel, start: Start) -> dict[str, Any]:
    done = check_start(KernelFile(kernel, b""), start, EFFORT)
    verdict = done.verdict
    plain = verdict.to_dict()
    said = {
        "verdict": verdict.summary(),
        "loops": [str(loop) for loop in verdict.loops],
        "findings": list(_listed(verdict.findings)),
        "customary": list(_listed(verdict.customary)),
        "needless": [str(one) for one in verdict.needless],
        "figures": verdict.figures,
        "witness": "none" if done.study is None else digest(str(done.witness())),
        "all": digest(str(plain)),
    }
    return {name: value for name, value in said.items() if value}


def _listed(findings: Iterable[CheckFinding]) -> Iterator[str]:
    for one in findings:
        yield from (line.strip() for line in one.describe().splitlines())

"""``pipeloom bench``: time kernels on a GPU, with the model beside it."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeloom.cli.bars import bar
from pipeloom.cli.options import JSON, REPEATED, CommandUsage, flag, option
from pipeloom.cli.printing import json_text, print_json, wrote
from pipeloom.cli.run import sizes_of
from pipeloom.cli.usage import WRONG_RESULT, at_least, check_folder
from pipeloom.drive.benching import ROTATE_MB, Benched, BenchJob, bench
from pipeloom.drive.emitting import EmitJob
from pipeloom.drive.sources import Source
from pipeloom.files import write_file
from pipeloom.machine.chip_file import chip_named
from pipeloom.machine.chips import target_for
from pipeloom.show.bench_page import render_bench

USAGE = CommandUsage(
    "Time kernels on a GPU, through HIP. Data are random, launches rotate over more memory than "
    "the last-level cache holds, and what is told is the median, p20, p80 and the minimum. The "
    "same kernel with a clock inside gives the clock and the cycles of a trip. Beside it stands "
    "what the model says and which part is furthest off, and torch.matmul where torch is there.",
    (
        option(
            "kernels",
            "code objects that emit or gemm wrote (K.hsaco), or what emit takes",
            nargs="+",
            metavar="KERNEL",
        ),
        option("--m", "rows of C (default 4096, of gemm's those it was made for)", type=int),
        option("--n", "columns of C (the same)", type=int),
        option("--k", "depth of the sums (the same)", type=int),
        option(
            "--size DIM=N", "the size along any dimension (repeatable; default 4096)", **REPEATED
        ),
        option(
            "--target --arch --target-file ARCH|FILE.toml",
            "the chip to emit for, where that is open, and whose model stands beside; or a chip "
            "file that pipeloom calibrate wrote",
            dest="arch",
        ),
        option("--dtype", "bf16, fp16 or fp8, where a kernel is emitted"),
        option("--runs N", "launches that are timed (default 100)", type=at_least(1), default=100),
        option("--warm-up N", "launches before them (default 10)", type=at_least(0), default=10),
        option(
            "--rotate MB",
            f"megabytes that sets of arrays take together (default {ROTATE_MB}, twice the MALL)",
            type=at_least(0),
            default=ROTATE_MB,
        ),
        flag("--apart", "wait for each launch before the next; else they go back to back"),
        option("--device N", "the GPU's number (default 0)", type=at_least(0), default=0),
        option("--seed", "what data are drawn from (default 0)", type=at_least(0), default=0),
        flag("--unproved", "time what is not PROVED: it may hang or spoil other work"),
        option("-o --output FILE.json", "write what was measured: the file to send", type=Path),
        option(
            "--page FILE.html", "write a page: times, and the model beside each part", type=Path
        ),
        JSON,
    ),
    examples=(
        "pipeloom bench k.hsaco --m 4096 --n 4096 --k 8192",
        "pipeloom bench ping_pong four_wave --runs 200 -o bench.json --page bench.html",
    ),
    codes={WRONG_RESULT: "a result differs from NumPy's"},
)


def run(arguments: argparse.Namespace) -> int:
    """Time each, print, write."""
    for path in (arguments.output, arguments.page):
        if path is not None:
            check_folder(path)
    found = [_bench(arguments, kernel) for kernel in arguments.kernels]
    data = {"measured": [one.to_dict() for one in found]}
    if arguments.output is not None:
        write_file(arguments.output, json_text(data))
    if arguments.page is not None:
        write_file(arguments.page, render_bench(data["measured"]))
    if arguments.json:
        print_json(data)
    else:
        for one in found:
            print("\n".join(one.lines()))
    wrote(arguments, arguments.output, arguments.page)
    return WRONG_RESULT if any(one.right is False for one in found) else 0


def _bench(arguments: argparse.Namespace, kernel: str) -> Benched:
    sizes = sizes_of(arguments)
    asked, chip = None, chip_named(arguments.arch)
    if not kernel.endswith(".hsaco"):
        source = Source(kernel, arch=chip, dtype=arguments.dtype)
        asked = EmitJob(source, k=sizes.get("k"))
    job = BenchJob(
        kernel,
        sizes,
        runs=arguments.runs,
        warm_up=arguments.warm_up,
        rotate_mb=arguments.rotate,
        apart=arguments.apart,
        device=arguments.device,
        unproved=arguments.unproved,
        seed=arguments.seed,
        emit=asked,
        machine=None if chip is None else target_for(chip),
    )
    with bar(arguments, kernel, job.runs) as tell:
        return bench(job, lambda number: tell(f"run {number + 1}", number, job.runs))

"""``pipeloom bench``: time kernels on a GPU, with the model beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pipeloom.cli.bars import bar
from pipeloom.cli.options import argument, flag, option
from pipeloom.cli.printing import json_text, print_json, wrote
from pipeloom.cli.run import DimensionOptions
from pipeloom.cli.usage import WRONG_RESULT, at_least, check_folder
from pipeloom.drive.benching import ROTATE_MB, Benched, BenchJob, bench
from pipeloom.drive.emitting import EmitJob
from pipeloom.drive.sources import Source
from pipeloom.files import write_file
from pipeloom.machine.chip_file import chip_named
from pipeloom.machine.chips import target_for
from pipeloom.show.bench_page import render_bench


@dataclass(frozen=True)
class BenchCommand(DimensionOptions):
    """Time kernels on a GPU, through HIP. Data are random, launches rotate over more memory than
    the last-level cache holds, and what is told is the median, p20, p80 and the minimum. The
    same kernel with a clock inside gives the clock and the cycles of a trip. Beside it stands
    what the model says and which part is furthest off, and torch.matmul where torch is there.

    Examples:
        pipeloom bench k.hsaco --m 4096 --n 4096 --k 8192
        pipeloom bench ping_pong four_wave --runs 200 -o bench.json --page bench.html

    Exit codes:
        {WRONG_RESULT}: a result differs from NumPy's
    """

    kernels: tuple[str, ...] = argument("KERNEL", (), nargs="+")
    """code objects that emit or gemm wrote (K.hsaco), or what emit takes"""
    arch: str | None = option("--target --arch --target-file ARCH|FILE.toml")
    """the chip to emit for, where that is open, and whose model stands beside; or a chip file
    that pipeloom calibrate wrote"""
    dtype: str | None = option("--dtype")
    """bf16, fp16 or fp8, where a kernel is emitted"""
    runs: int = option("--runs N", 100, type=at_least(1))
    """launches that are timed (default 100)"""
    warm_up: int = option("--warm-up N", 10, type=at_least(0))
    """launches before them (default 10)"""
    rotate_mb: int = option("--rotate MB", ROTATE_MB, type=at_least(0))
    """megabytes that sets of arrays take together (default {ROTATE_MB}, twice the MALL)"""
    apart: bool = flag()
    """wait for each launch before the next; else they go back to back"""
    device: int = option("--device N", 0, type=at_least(0))
    """the GPU's number (default 0)"""
    seed: int = option("--seed", 0, type=at_least(0))
    """what data are drawn from (default 0)"""
    unproved: bool = flag()
    """time what is not PROVED: it may hang or spoil other work"""
    output: Path | None = option("-o --output FILE.json")
    """write what was measured: the file to send"""
    page: Path | None = option("--page FILE.html")
    """write a page: times, and the model beside each part"""

    M: ClassVar = "4096, of gemm's those it was made for"
    N: ClassVar = "the same"
    K: ClassVar = "the same"
    ANY: ClassVar = "(repeatable; default 4096)"

    def run(self) -> int:
        """Time each, print, write."""
        for path in (self.output, self.page):
            if path is not None:
                check_folder(path)
        found = [self._bench(kernel) for kernel in self.kernels]
        data = {"measured": [one.to_dict() for one in found]}
        if self.output is not None:
            write_file(self.output, json_text(data))
        if self.page is not None:
            write_file(self.page, render_bench(data["measured"]))
        if self.json:
            print_json(data)
        else:
            for one in found:
                print("\n".join(one.lines()))
        wrote(self, self.output, self.page)
        return WRONG_RESULT if any(one.right is False for one in found) else 0

    def _bench(self, kernel: str) -> Benched:
        sizes = self.sizes_of()
        asked, chip = None, chip_named(self.arch)
        if not kernel.endswith(".hsaco"):
            source = Source(kernel, arch=chip, dtype=self.dtype)
            asked = EmitJob(source, k=sizes.get("k"))
        machine = None if chip is None else target_for(chip)
        job = self.job(BenchJob, kernel=kernel, sizes=sizes, emit=asked, machine=machine)
        with bar(self, kernel, job.runs) as tell:
            return bench(job, lambda number: tell(f"run {number + 1}", number, job.runs))

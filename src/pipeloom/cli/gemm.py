"""``pipeloom gemm``: one shape in, the best kernel out."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from pipeloom.cli.options import argument, option
from pipeloom.cli.printing import print_json, wrote
from pipeloom.cli.tune import TuningOptions
from pipeloom.cli.usage import at_least
from pipeloom.tuning.calls import check_kernel_file, gemm


def _size(text: str) -> int:
    """An argparse type: one size, and not a shape."""
    parts = text.split("x")
    if len(parts) == 3 and all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is three sizes: write {' '.join(parts)}")
    return at_least(1)(text)


@dataclass(frozen=True)
class GemmCommand(TuningOptions):
    """The best kernel of a matrix product C[M, N] = op(A) @ op(B): tuned as pipeloom tune does,
    proved, and written as a code object or as assembly. Throughput is the model's, not measured.

    Examples:
        pipeloom gemm 4096 4096 8192 --dtype fp8 -o k.hsaco
        pipeloom gemm 1000 1000 1000 --target MI300X -o k.s
    """

    m: int = argument("M", type=_size)
    n: int = argument("N", type=_size)
    k: int = argument("K", type=_size)
    output: Path | None = option("-o --output K.hsaco|K.s")
    """a code object with K.json, which says how to launch it, or assembly (default: the kernel's
    name, a code object)"""

    def run(self) -> int:
        """Tune, write, print."""
        if self.output is not None:
            check_kernel_file(self.output)
        options = self.tuning_options()
        with self.shown(1) as tell:
            made = gemm(self.m, self.n, self.k, **options, progress=tell)
        found = made.tuned
        output = self.output or Path(f"{made.kernel.name}.hsaco")
        written = made.write(output)
        if self.json:
            told = {"output": str(output), "files": [*map(str, written)], "launches": made.launches}
            print_json({**made.to_dict(), **told})
        else:
            guess = found.prediction
            print(f"{found.problem} {found.problem.dtype} on {found.chip}: {found.plan}, PROVED")
            print(
                f"  {guess.tflops:.0f} TFLOPS predicted: {guess.seconds * 1e6:.1f} us at "
                f"{guess.clock_ghz:.2f} GHz, matrix units {guess.efficiency:.0%} busy; "
                f"limit: {guess.limit}"
            )
            print(f"  {len(found.trials)} of {found.candidates} blocks timed")
            if len(made.launches) > 1:
                print(f"  launched one after the other: {', then '.join(made.launches)}")
            wrote(self, *written)
        return self.exit_code([found])

"""A tuning run as pages: one of all shapes, and the report of every kernel that was chosen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeloom.drive.gemm import GemmSpec, gemm_program, kernel_name
from pipeloom.drive.programs import report
from pipeloom.errors import SpecError
from pipeloom.files import read_text, reading, write_files
from pipeloom.show.tuning_page import render_tuning
from pipeloom.tuning.search import Tuned

Figures = Mapping[tuple[str, str, int, int, int], float]
"""The best figure by chip, type and sizes."""


def read_figures(path: Path) -> Figures:
    """Of a file with a JSON object a line; the best of each shape."""
    best: dict[tuple[str, str, int, int, int], float] = {}
    with reading(path, field="published"):
        lines = read_text(path).splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            key = (row["chip"], row["dtype"], row["m"], row["n"], row["k"])
            best[key] = max(best.get(key, 0.0), float(row["tflops"]))
        except (ValueError, KeyError, TypeError) as error:
            raise SpecError(
                f"{path}:{number}: no figure ({type(error).__name__}: {error})",
                hint="a line is an object with m, n, k, dtype, chip and tflops",
                field="published",
            ) from error
    return best


def write_pages(found: Sequence[Tuned], folder: Path, figures: Figures) -> None:
    """``index.html``, and a report for every kernel."""
    gpu, dtype = found[0].gpu, found[0].problem.dtype
    names: dict[GemmSpec, str] = {}
    pages: dict[Path, str] = {}
    for one in found:
        if one.spec not in names:
            names[one.spec] = f"{kernel_name(one.spec)}.html"
            pages[folder / names[one.spec]] = report(gemm_program(one.spec))
    rows = [
        {
            **one.to_dict(),
            "trials": [(str(t.block), t.bound_us, t.us) for t in one.trials],
            "link": names[one.spec],
            "published": figures.get(
                (one.chip, dtype, one.problem.m, one.problem.n, one.problem.k)
            ),
        }
        for one in found
    ]
    pages[folder / "index.html"] = render_tuning(
        f"{gpu.chip}, {dtype}: tuned matrix products",
        rows,
        peak_tflops=_peak_tflops(found[0]),
        hbm_gb_per_s=gpu.hbm_gb_per_s.value,
    )
    write_files(pages)


def _peak_tflops(one: Tuned) -> float:
    """Of all matrix units at the peak clock: a block's operations over its matrix cycles."""
    gpu, block = one.gpu, one.plan.block
    per_cycle = 2 * block.m * block.n * block.k / one.cost.matrix
    return per_cycle * gpu.target.cus.value * gpu.clock_peak_ghz.value * 1e-3

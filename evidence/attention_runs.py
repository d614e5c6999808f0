"""Attention in the emulator: all variants, ragged sizes, hard data, random timings.

    python -m evidence.attention_runs [--output evidence/attention-runs.md]

Each run is compared with attention in double precision. What it may err by is twice what the same
arithmetic gives in order: the declaration's own NumPy meaning, which rounds where the kernel does.
A sum that is added in another order, or a P that a last bit sends to its neighbour, stays within
that; a product in the wrong frame, a tile that is lost or counted twice does not. To that comes
2^-20 of the largest value, for data whose results are exact in order.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from evidence.evidence_page import Table, commit, write_page
from pipeloom.declare.kernels import attention
from pipeloom.drive.pipeline import pipeline
from pipeloom.drive.trial import Launchable, run_program
from pipeloom.machine.chips import target_for
from pipeloom.order.in_order import in_order
from pipeloom.program import Program, evaluate
from pipeloom.write import assemble, emit_program

Array = np.ndarray[Any, np.dtype[Any]]
PAGE = Path(__file__).with_name("attention-runs.md")
FLOOR = 2.0**-20
SPIKES = tuple(product((10, 100, 1000), ("first", "middle", "last")))
SIZES = ((64, 192), (100, 130), (33, 65), (7, 190), (70, 129))
FEW = ((64, 64), (33, 7), (100, 63), (5, 1), (1, 2))
RUNS = ("variant", "code")
"""What names a row."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel of ``waves`` with 32 queries each, as it is shipped."""

    arch: str
    dtype: str
    d: int
    dv: int
    causal: bool
    keys: int = 64
    waves: int = 2

    def __str__(self) -> str:
        kind = "causal" if self.causal else "full"
        waves = "" if self.waves == 2 else f" {self.waves} waves"
        return f"{self.arch} {self.dtype} d={self.d} dv={self.dv} {kind}{waves}"

    def program(self) -> Program:
        """Proved."""
        rows = 32 * self.waves
        loop = attention(rows, self.keys, self.d, self.dv, self.dtype, causal=self.causal, lse=True)
        return pipeline(loop, target_for(self.arch), {"q": self.waves}, otherwise=in_order)


VARIANTS = (
    *(
        Variant("gfx950", dtype, d, d, causal)
        for dtype, d, causal in product(("bf16", "fp16"), (128, 64), (False, True))
    ),
    *(Variant("gfx950", "bf16", 128, 128, causal, waves=8) for causal in (False, True)),
    Variant("gfx950", "bf16", 64, 128, True),
    Variant("gfx950", "fp16", 128, 64, False),
    *(
        Variant("gfx942", dtype, d, d, causal, 32, waves=d // 32)
        for dtype, d, causal in product(("bf16", "fp16"), (64, 128), (False, True))
    ),
    Variant("gfx942", "bf16", 128, 64, True, 32, waves=4),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One problem: what the data are, and their sizes."""

    name: str
    sizes: dict[str, int]
    arrays: dict[str, Array]
    scale: float


def cases(variant: Variant) -> Iterator[Case]:
    """Every kind of data, each at another size."""
    kinds = ["normal", "grouped heads", "equal", "tiny scale", "large scale", "no keys"]
    kinds += ["fewer keys than queries", "shorter than a tile"]
    kinds += [f"a key {by} above, {where} tile" for by, where in SPIKES]
    for number, kind in enumerate(kinds):
        for turn in range(2):
            yield _case(variant, kind, number + 2 * turn, 97 * number + turn)


def _case(variant: Variant, kind: str, at: int, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    queries, keys = SIZES[at % len(SIZES)]
    if kind == "shorter than a tile":
        queries, keys = FEW[at % len(FEW)]
    elif kind == "fewer keys than queries":
        queries, keys = keys, min(queries, 70)
    elif kind == "no keys":
        keys = 0
    grouped = kind == "grouped heads"
    batch, heads, group = (2, 2, 2) if grouped else (1, 1, 1)
    q = rng.standard_normal((batch, heads, group, queries, variant.d))
    k = rng.standard_normal((batch, heads, keys, variant.d))
    v = rng.standard_normal((batch, heads, keys, variant.dv))
    scale = variant.d**-0.5
    if kind == "equal":
        k[:] = k[:, :, :1] if keys else k
    elif kind == "tiny scale":
        scale = 1e-4
    elif kind == "large scale":
        scale = 4.0
    elif kind.startswith("a key"):
        by, where = int(kind.split()[2]), kind.split()[-2]
        place = {"first": 1, "middle": keys // 2, "last": keys - 1}[where]
        q[..., 0], k[..., 0] = 1.0, 0.0
        k[:, :, place, 0] = by / scale
    sizes = {"q": queries, "keys": keys, "d": variant.d, "v": variant.dv}
    sizes |= {"batch": batch, "heads": heads, "group": group}
    arrays = {"Q": q, "K": k, "V": v}
    return Case(kind, sizes, {n: a.astype(np.float32) for n, a in arrays.items()}, scale)


def in_double(case: Case, variant: Variant, arrays: dict[str, Array]) -> dict[str, Array]:
    """Attention as everybody knows it, of the inputs as their type holds them."""
    q, k, v = (arrays[name].astype(np.float64) for name in ("Q", "K", "V"))
    k, v = k[:, :, None], v[:, :, None]
    scores = q @ k.swapaxes(-1, -2) * np.float64(np.float32(case.scale))
    if variant.causal:
        rows, columns = scores.shape[-2:]
        hidden = np.arange(columns) > np.arange(rows)[:, None] + columns - rows
        scores = np.where(hidden, -np.inf, scores)
    top = scores.max(-1, keepdims=True, initial=-1e30)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (top + np.log(total))[..., 0]
    return {
        "out": weights / np.maximum(total, 1e-300) @ v,
        "lse": np.where(total[..., 0] > 0, lse, -np.inf),
    }


def error(found: Array, wanted: Array) -> float:
    """The largest; infinite where something else than a number is wrong."""
    same = found == wanted
    with np.errstate(invalid="ignore"):
        away = np.where(same, 0.0, np.abs(found.astype(np.float64) - wanted))
    return float(np.where(np.isnan(away), np.inf, away).max(initial=0.0))


@dataclass
class Outcome:
    """All runs of a variant."""

    runs: int = 0
    findings: int = 0
    wrong: int = 0
    spoilt: int = 0
    worst: float = 0.0
    """Of an error over what it may be."""
    where: str = ""


def run_variant(variant: Variant, ready: Launchable, every: int = 1) -> Outcome:
    """Run every so many of the cases, each at a timing of its own."""
    outcome = Outcome()
    meaning = ready.emitted.launch.meaning
    for seed, case in list(enumerate(cases(variant)))[::every]:
        arrays = {n: meaning[n].type.dtype.round(a) for n, a in case.arrays.items()}
        scalars = {"scale": case.scale}
        trial = run_program(
            ready.emitted, ready, sizes=case.sizes, seed=seed, arrays=arrays, scalars=scalars
        )
        model = evaluate(meaning, arrays, scalars)
        wanted = in_double(case, variant, arrays)
        outcome.runs += 1
        outcome.findings += len(trial.findings)
        outcome.spoilt += trial.spoilt
        for name, value in wanted.items():
            size = np.abs(np.where(np.isinf(value), 0, value)).max(initial=0.0)
            allowed = 2 * error(model[name], value) + FLOOR * float(size)
            made = error(trial.outputs[name], value)
            share = made / allowed if allowed else float(made > 0) * np.inf
            outcome.wrong += share > 1
            if share > outcome.worst:
                outcome.worst, outcome.where = share, f"{name}, {case.name}"
    return outcome


def page(runs: Table) -> str:
    """The whole text."""
    head = (__doc__ or "").split("\n\n")
    lines = ["# Attention in the emulator", "", head[2].replace("\n", " ").strip(), ""]
    lines += [
        "Written by `python -m evidence.attention_runs`. Nothing here has run on hardware.",
        "",
        f"{runs.total('runs')} runs, {runs.total('wrong')} of them wrong.",
        "",
        *runs.lines(),
        "",
        "In brackets, the commit that was run; a sample runs in the tests. What becomes of "
        "weakened waits: [emitted-mutants.md](emitted-mutants.md).",
    ]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Run what is asked for, and write the page after each kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=PAGE)
    parser.add_argument("--only", default="", help="variants whose name contains this")
    options = parser.parse_args(argv)
    runs = Table(
        ("kernel", "runs", "findings", "wrong", "bytes outside", "worst error / allowed", "at"), 1
    )
    runs.read(options.output)
    for variant in (v for v in VARIANTS if options.only in str(v)):
        emitted = emit_program(variant.program())
        found = run_variant(variant, Launchable.load(emitted, assemble(emitted)))
        counts = (found.runs, found.findings, found.wrong, found.spoilt)
        row = (*map(str, counts), f"{found.worst:.3f}", f"{found.where} ({commit()})")
        runs.put((str(variant),), [row])
        runs.arrange([(str(v),) for v in VARIANTS])
        write_page(options.output, lambda: page(runs))
        print(variant, *row, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

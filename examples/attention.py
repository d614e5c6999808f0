"""Attention forward from its declaration: proved, emitted, run beside NumPy in double precision.

The declaration is ``pipeloom.kernels.attention`` (src/pipeloom/declare/kernels.py): a running
maximum that rescales only where a row has grown, masks by what is left of the keys, sums joined at
the end.

    python examples/attention.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import pipeloom as pl
from pipeloom.drive.trial import run_program
from pipeloom.write import assemble

Array = np.ndarray[Any, np.dtype[Any]]


def in_numpy(q: Array, k: Array, v: Array) -> Array:
    """Causal, aligned to the end; heads of a group share their keys."""
    scores = q @ k[:, :, None].swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    rows, columns = scores.shape[-2:]
    hidden = np.arange(columns) > np.arange(rows)[:, None] + columns - rows
    weights = np.where(hidden, 0, np.exp(scores - scores.max(-1, keepdims=True)))
    return np.asarray(weights / weights.sum(-1, keepdims=True) @ v[:, :, None])


def main(queries: int = 70, keys: int = 90, depth: int = 64) -> bool:
    """Pipeline, prove, emit, run; whether the result is right."""
    loop = pl.kernels.attention(64, 32, depth, causal=True)
    program = pl.pipeline(loop, pl.target_for("gfx950"), {"q": 2})
    print(program.iterations, "iterations;", pl.verify(program).summary())
    kernel = pl.emit(program)
    print(kernel.resources)
    rng = np.random.default_rng(0)
    sizes = {"q": queries, "keys": keys, "d": depth, "v": depth, "batch": 1, "heads": 2, "group": 2}
    arrays = {
        node.name: node.type.dtype.round(rng.standard_normal([sizes[dim] for dim in node.dims]))
        for node in loop.meaning.inputs
    }
    trial = run_program(kernel, assemble(kernel), sizes=sizes, arrays=arrays)
    error = np.abs(trial.outputs["out"] - in_numpy(*(arrays[name] for name in "QKV"))).max()
    print(trial.summary(), f"off by {error:.4f} at most", sep="; ")
    return trial.ok and bool(error < 0.02)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)

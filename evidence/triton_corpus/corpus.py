"""The whole corpus, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from evidence.triton_corpus import attention, elementwise, matmul, models, movement, rows
from evidence.triton_corpus.harness import Case

_TWICE = frozenset(
    {
        "GEMM",
        "atomics",
        "conversions",
        "convolution",
        "flash attention",
        "histogram",
        "normalisation",
        "softmax",
        "split-K GEMM",
        "thin GEMM",
        "transpose",
        "vector add",
    }
)
"""Families that are also compiled for small arrays, which changes the memory instructions."""


def all_cases() -> list[Case]:
    """Every case of every family."""
    return list(_cases())


def _cases() -> Iterator[Case]:
    for module in (elementwise, rows, movement, matmul, attention, models):
        for case in module.cases():
            yield case
            if case.family in _TWICE and not case.small:
                yield replace(case, name=f"{case.name}, small arrays", small=True)

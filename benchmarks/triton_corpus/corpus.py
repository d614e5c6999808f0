"""The whole corpus, in order."""

from __future__ import annotations

from benchmarks.triton_corpus import attention, elementwise, matmul, movement, rows
from benchmarks.triton_corpus.harness import Case


def all_cases() -> list[Case]:
    """Every case of every family."""
    families = (elementwise, rows, movement, matmul, attention)
    return [case for module in families for case in module.cases()]

"""Random kernels: declarations, programs for them by a lowering of their own, and broken ones."""

from benchmarks.random_programs.cases import Case, cases, cases_of_base

__all__ = ["Case", "cases", "cases_of_base"]

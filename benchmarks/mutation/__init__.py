"""Mutants of the source, drawn by a seed, and which of them the tests notice."""

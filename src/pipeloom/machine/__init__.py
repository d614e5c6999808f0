"""Machines: one file per chip, with the source of every number."""

"""Judges: verify, execute, simulate, emulate, wait states. None of them imports another."""

"""Triton kernels with NumPy oracles, for the emulator. See ``harness`` and docs/emulator.md."""

"""What stops an emulation, as opposed to what it finds.

A ``Finding`` (see ``observed``) is a defect of the kernel: the run records it and goes on. The
errors here end the run, because nothing true could be computed after them.
"""

from __future__ import annotations

from pipeloom.errors import ScheduleError


class EmulateError(ScheduleError):
    """The emulator cannot run what it was given."""


class CodeObjectError(EmulateError):
    """The bytes are not an AMDGPU code object we can load, or the kernel is not in it."""


class LaunchError(EmulateError):
    """Grid, block or arguments do not fit the kernel."""


class UnsupportedInstructionError(EmulateError):
    """The kernel holds an instruction that the emulator does not model; the message names it."""


class StepLimitError(EmulateError):
    """The kernel ran longer than ``max_instructions``: an endless loop, most likely."""

"""What can go wrong between a schedule and a code object; all of it the user's to fix."""

from __future__ import annotations

from pipeloom.errors import ScheduleError


class EmitError(ScheduleError):
    """A schedule, shape or option that cannot become a kernel."""


class GateError(EmitError):
    """The schedule's verdict does not allow it to become machine code."""


class RegisterLimitError(EmitError):
    """The kernel needs more registers or LDS than the target gives a workgroup."""


class NotLinearError(EmitError):
    """A place is no linear function of a lane's bits, as few instructions compute it."""


class HazardError(EmitError):
    """The code lacks wait states that the hardware does not provide by itself."""


class AssemblyError(EmitError):
    """The assembler or linker is missing, or rejected the text.

    ``line`` is the line of our assembly, ``entry`` the schedule entry it came from.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        line: int | None = None,
        entry: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.line = line
        self.entry = entry

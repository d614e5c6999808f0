"""What can go wrong, split by whose fault it is.

``ScheduleError`` and its kinds are the user's: the message names the value that is wrong and
the hint says what to change. ``InternalError`` is ours, and asks for a report. The command
line prints the first without a traceback and lets the second through.
"""

from __future__ import annotations


class ScheduleError(Exception):
    """A declaration, configuration or schedule that cannot be compiled: the user's to fix.

    ``str()`` shows the message, then the hint.

    Args:
        message: What is wrong, with the value.
        hint: What would be legal instead; None where there is nothing to say.
        field: The dotted name of the offending value, where there is one.
    """

    def __init__(self, message: str, *, hint: str | None = None, field: str | None = None) -> None:
        self.message = message
        self.hint = hint
        self.field = field
        super().__init__(message if hint is None else f"{message}\n\nhint: {hint}")


class ConfigError(ScheduleError):
    """A field is out of range, of the wrong type, or contradicts another."""


class UnknownMemberError(ConfigError, AttributeError):
    """A value has no such method; to Python an attribute that is missing."""


class SpecError(ScheduleError):
    """A spec file has an unknown key, a wrong type or a value out of range."""


class GraphError(ScheduleError):
    """The dependence graph is malformed: bounds, self-loops or zero-distance cycles."""


class OrderError(ScheduleError):
    """No order of the operations satisfies the stated limits."""


class StructureError(ScheduleError):
    """An order cannot become blocks without losing operations or breaking a structural rule."""


class InternalError(Exception):
    """A broken promise inside pipeloom; never caused by input alone. Please report it."""

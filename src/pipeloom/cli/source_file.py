"""What the file given to a command is: a spec, a compiled schedule, or how to launch a kernel.

All three are JSON. A command that cannot use one of them says which it was given, instead of
complaining about the keys of the one it expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeloom.errors import SpecError
from pipeloom.reference.spec import find_spec


def find_source(source: str) -> Mapping[str, Any]:
    """What a schedule's name or a file stands for; a launch record is no schedule."""
    data = find_spec(source)
    if is_launch_record(data):
        raise SpecError(
            f"{source} says how to launch the kernel {data.get('kernel')}; it holds no schedule",
            hint="give the schedule's name, its spec, or what pipeloom compile -o wrote",
            field="schedule",
        )
    return data


def is_compiled(data: Mapping[str, Any]) -> bool:
    """Whether a mapping is what ``pipeloom compile`` wrote, not a spec."""
    return "prologue" in data


def is_launch_record(data: Mapping[str, Any]) -> bool:
    """Whether a mapping is the ``k.json`` that ``pipeloom emit`` writes beside ``k.hsaco``."""
    if "format" not in data:
        return False
    from pipeloom.write import LAUNCH_FORMAT

    return bool(data["format"] == LAUNCH_FORMAT)

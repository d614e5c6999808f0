"""One command in this process: its exit code, what it printed, and the error that ended it.

Tests ask for facts (the code, JSON, files, the field that an error names), not for sentences, so
that a message can be said better without a test that says the same again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from pipeloom.cli import commands
from pipeloom.cli.main import main
from pipeloom.cli.usage import worded
from pipeloom.errors import ScheduleError


@dataclass(frozen=True)
class Ran:
    """What came of a command."""

    code: int
    out: str
    err: str
    error: ScheduleError | None

    @property
    def field(self) -> str | None:
        """What the error says is to be changed; every error has a hint, too."""
        assert self.error is not None, self.err
        assert self.error.hint, self.err
        return self.error.field

    @property
    def data(self) -> Any:
        """What ``--json`` printed."""
        return json.loads(self.out)


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ran:
    """Run it; wrong usage exits by itself, with 2."""
    errors: list[ScheduleError] = []

    def noted(error: ScheduleError, *how: Any) -> str:
        errors.append(error)
        return worded(error, *how)

    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "worded", noted)
        code = main(list(arguments))
    out, err = capsys.readouterr()
    assert (code == 1) == bool(errors) == err.startswith("error: ") or code in (0, 130), err
    return Ran(code, out, err, errors[-1] if errors else None)

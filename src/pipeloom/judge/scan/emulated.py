"""Instructions as the emulator executes them: what each reads, writes and keeps, SCC among it."""

from __future__ import annotations

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.executable import build_step
from pipeloom.judge.emulate.step import MicroOp
from pipeloom.judge.emulate.traps import EmulateError

_MATRIX = ("v_mfma", "v_smfmac")


class EmulatedSteps:
    """The steps of one kernel, each built when it is asked for, once."""

    def __init__(self, arch: str) -> None:
        self._arch = arch
        self._known: dict[int, MicroOp | None] = {}

    def __getitem__(self, one: Decoded) -> MicroOp | None:
        """None of matrix instructions, and of those that the emulator does not have."""
        if one.pc not in self._known:
            try:
                step = None if one.name.startswith(_MATRIX) else build_step(one, self._arch, {})
            except EmulateError:
                step = None
            self._known[one.pc] = step
        return self._known[one.pc]

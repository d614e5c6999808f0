"""A decoded instruction made executable: what it does and which registers it touches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pipeloom.judge.emulate.decode import Decoded
from pipeloom.judge.emulate.register_numbers import each_register
from pipeloom.judge.emulate.screening import screen_reads
from pipeloom.judge.emulate.wave import Wave

Run = Callable[[Wave], None]
Screen = Callable[[Wave, "MicroOp"], None]


@dataclass(slots=True, eq=False)
class MicroOp:
    """``run`` executes on a wave; ``screen`` is called before it when a touched register is dirty.

    ``reads`` and ``writes`` are register sets. ``keeps`` are those it writes of which something may
    be left even where every lane is active, as bits or as lanes: no use of a value, but whoever
    follows values must take it for one. ``whole_wave`` marks instructions that ignore EXEC:
    they may read and write any of the 64 lanes. ``holds`` marks those whose arithmetic may wait
    (``matrix_batch``). A step may touch no register that ``touched`` does not name; where M0
    decides which of them it does, ``moved`` is the step that a wave is about to execute.
    """

    instruction: Decoded
    run: Run
    reads: int = 0
    writes: int = 0
    screen: Screen = screen_reads
    whole_wave: bool = False
    holds: bool = False
    keeps: int = 0
    moved: Callable[[Wave], MicroOp] | None = None
    touched: int = field(init=False)
    read_list: list[int] = field(init=False)
    write_list: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.touched = self.reads | self.writes
        self.read_list = each_register(self.reads)
        self.write_list = each_register(self.writes)

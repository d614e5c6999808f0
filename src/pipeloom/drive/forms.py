"""The proved forms of a schedule or program, and which of them is the fastest.

What is not PROVED can be given waits, or waits and barriers, that are. Which form costs
least is not for a rule to say: a ping-pong needs its barriers for its pace, another loop only pays
for them. So each is made and simulated, and the fewest cycles win.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeloom.drive.loops import LoopSource
from pipeloom.drive.opening import Opened, lacks_tile, open_source
from pipeloom.drive.tiling import DEFAULT_TYPE
from pipeloom.errors import ConfigError, OrderError, ScheduleError
from pipeloom.judge.simulate.issued import simulate, usual_iterations
from pipeloom.judge.simulate.trace import Trace
from pipeloom.judge.verify import Verdict, verify
from pipeloom.program import Program
from pipeloom.reference.compiler import Sync
from pipeloom.show.headers import changes_text

TRIPS = 8
"""Iterations simulated to compare forms; steady by then."""

DERIVED: tuple[Sync, ...] = ("repaired", "proven")


@dataclass(frozen=True, slots=True)
class Form:
    """One way to synchronise a schedule or program."""

    sync: Sync
    """Who places waits and barriers: ``reference``, ``proven`` or ``repaired``."""
    reorder: bool
    """Whether steps may move."""
    label: str
    """The two in words."""
    changes: str = ""
    """What changed besides waits and barriers."""
    cycles: float | None = None
    """Cycles per trip of its loop; None where they cannot be told."""
    total: int | None = None
    """Cycles of the whole run; None where they cannot be told."""

    @property
    def words(self) -> str:
        """``sync repaired; 4 loads moved``."""
        return self.label + (self.changes and f"; {self.changes}")


@dataclass(frozen=True, slots=True)
class Choice:
    """The fastest proved form, against what is named as it is."""

    named: Form
    """The form that was asked about."""
    verdict: Verdict
    """The verdict on that."""
    form: Form
    """The fastest proved form."""
    tile: str = ""
    """The tile type it was simulated with."""
    notes: tuple[str, ...] = ()
    """What else is worth knowing."""

    @property
    def unchanged(self) -> bool:
        """Whether it is taken as it is."""
        return self.form.sync == "reference"

    @property
    def percent(self) -> float | None:
        """What the form costs in cycles, in percent of the input."""
        if self.form.cycles is None or not self.named.cycles:
            return None
        return 100.0 * (self.form.cycles - self.named.cycles) / self.named.cycles

    def cost(self) -> str:
        """What it costs in cycles against the input, in words."""
        if self.form.cycles is None:
            return "cycles unknown: no tile shape to count instructions of"
        text = f"{self.form.cycles:.0f} cycles per trip{self.tile}"
        if self.unchanged:
            return text
        if self.named.cycles is None or self.percent is None:
            return f"{text}; those of the input cannot be told"
        return f"{text}, {self.percent:+.1f} % against the {self.named.cycles:.0f} of the input"

    def to_dict(self) -> dict[str, object]:
        """Plain data."""
        return {
            "form": self.form.words,
            "cycles_per_trip": self.form.cycles,
            "input_cycles_per_trip": self.named.cycles,
            "percent": None if self.percent is None else round(self.percent, 2),
        }


def choose_form(
    opened: Opened,
    *,
    keep_proved: bool = False,
    derive: bool = False,
    only: tuple[Sync, bool] | None = None,
) -> Choice:
    """The fastest proved form; with ``keep_proved`` what is named, where it is proved.

    ``derive`` leaves out what is named as it is, ``only`` all but one form (sync, reorder). A
    schedule that could have a tile and has none is timed with one of bf16. Raises ``OrderError``
    where no form can be proved.
    """
    verdict = verify(opened.program("reference"), ops=opened.ops)
    label = "sync as declared"
    if isinstance(opened.origin, LoopSource | Program):
        label = "sync as it is"
    elif opened.is_compiled:
        label = "sync as compiled"
    timed, tile = _timed(opened)
    named = _timed_form(timed, Form("reference", False, label))
    stays = verdict.proved and not derive
    if stays and keep_proved:
        return Choice(named, verdict, named, tile)
    if only is not None:
        return Choice(named, verdict, _timed_form(timed, _form(opened, *only)), tile)
    notes: list[str] = []
    forms = [named] if stays else []
    for form in _derived(opened, notes, found=bool(forms)):
        forms.append(_timed_form(timed, form))
    best = min(forms, key=lambda form: (form.cycles is None, form.cycles or 0, form.total or 0))
    return Choice(named, verdict, best, tile, tuple(notes) if best.sync == "proven" else ())


def _derived(opened: Opened, notes: list[str], *, found: bool) -> Iterator[Form]:
    """Waits derived, then barriers too; ops move only where the order cannot be kept."""
    for sync in DERIVED:
        try:
            form = _form(opened, sync, True)
        except OrderError as error:
            if sync == DERIVED[-1] and not found:
                raise
            notes.append(f"the barriers cannot be kept ({error.message}), so they are derived too")
            continue
        found = True
        yield form


def _form(opened: Opened, sync: Sync, reorder: bool) -> Form:
    return Form(sync, reorder, f"sync {sync}", changes_text(opened.program(sync, reorder)))


def _timed(opened: Opened) -> tuple[Opened, str]:
    """What to simulate, and in words the tile that it was lent."""
    compiled = opened.schedule("reference")
    if compiled is None or opened.is_compiled or not lacks_tile(compiled):
        return opened, ""
    try:
        lent = open_source(replace(opened.source, dtype=None, default_tile=DEFAULT_TYPE))
    except ScheduleError:
        return opened, ""
    return lent, f" with a {DEFAULT_TYPE} tile"


def _timed_form(opened: Opened, form: Form) -> Form:
    try:
        trace = _simulated(opened, form)
    except (ConfigError, OrderError):
        return form
    return replace(
        form, cycles=round(trace.steady_cycles_per_iteration, 2), total=trace.total_cycles
    )


def _simulated(opened: Opened, form: Form) -> Trace:
    program = opened.program(form.sync, form.reorder)
    count = usual_iterations(program)
    if not isinstance(opened.origin, LoopSource | Program):
        least = program.min_trips.items()
        count = program.iterations.at({name: max(TRIPS, trips) for name, trips in least})
    return simulate(program, iterations=count)

"""Steps: what a wave executes, one after the other.

A ``Work`` step computes part of a node of the meaning, or copies values from one place to another.
It says what it touches as ``Access``es to named resources:

    read A0 <- LDS A   iteration +0
        reads   LDS "A" copy 1, rows 64:128 in waves 0 and 1, rows 192:256 in waves 2 and 3
        writes  registers "A0", all of it
        counter lgkmcnt, 8 entries

The other steps only order: waits, barriers, priorities, fences. A step's granularity is free: a
whole fragment, or a single instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, TypeAlias

from pipeloom.program.tiles import Box


@dataclass(frozen=True, slots=True)
class Access:
    """A part of a resource that a step reads or writes.

    Coordinates are the resource's own; different coordinates are different storage.
    """

    resource: str
    """The resource by name; an input's, output's or argument's own name means memory, or the
    argument."""
    boxes: tuple[Box, ...] = ()
    """Which part: none means all of it, one is the same for all waves, else there is one per wave
    of the group."""
    copy: int = 0
    """Which copy of a resource that has several, from 0."""
    generation: int | None = None
    """The iteration whose value is meant, relative to the section like ``Work.iteration``. It is
    for people and pages; the verifier does not rely on it."""
    shared: bool = False
    """A cooperative access: each wave of the group touches a slice of the box that the layout
    decides, all of them together touch it all. A proof must hold for every way of slicing."""

    def box(self, wave: int) -> Box | None:
        """The box of the ``wave``-th wave of the group; None means all of the resource.

        Args:
            wave: The wave's place in its group, from 0.
        """
        if not self.boxes:
            return None
        return self.boxes[wave] if len(self.boxes) > 1 else self.boxes[0]


class Unit(Enum):
    """Which part of a compute unit an instruction occupies."""

    MATRIX = "matrix"
    """The matrix unit (MFMA)."""
    VECTOR = "vector"
    """The vector unit."""
    TRANS = "trans"
    """The unit of transcendental vector instructions (``v_exp_f32``)."""
    PACKED = "packed"
    """The vector unit, for packed f32 instructions."""
    LDS_READ = "lds_read"
    """Reads of LDS to registers."""
    LDS_WRITE = "lds_write"
    """Writes of registers to LDS."""
    LOAD_LDS = "load_lds"
    """Loads from global memory straight to LDS."""
    LOAD = "load"
    """Loads from global memory to registers."""
    STORE = "store"
    """Stores from registers to global memory."""
    SCALAR = "scalar"
    """The scalar unit."""


@dataclass(frozen=True, slots=True)
class Issue:
    """Instructions of one kind, as a simulator prices them."""

    unit: Unit
    """What the instructions occupy."""
    count: int = 1
    """How many there are."""
    shape: str = ""
    """The matrix instruction by name (``16x16x32_f16``), for ``Unit.MATRIX``."""
    bytes: int = 0
    """Bytes per lane that each memory instruction moves."""
    conflict: float = 1.0
    """The factor by which bank conflicts slow an LDS access; 1 is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One op, or a part of one: it computes, or copies a value from one place to another."""

    TAG: ClassVar[str] = "work"
    """What files call this kind of step."""

    node: str
    """The node of the meaning that it computes, or, for a copy, the one whose value it moves."""
    label: str
    """What pages and messages call it. It changes nothing."""
    iteration: int | None
    """Which iteration it serves, relative to the section it stands in; None outside of iterations
    (BEFORE and AFTER)."""
    reads: tuple[Access, ...] = ()
    """What it reads, in the order of the node's ``uses``. A STREAM, RESIDENT, SCALAR or CONSTANT
    node's own name means global memory, a kernel argument or an immediate. A copy has one."""
    writes: tuple[Access, ...] = ()
    """Where the result goes; an OUTPUT's name means memory. A copy has one."""
    accumulates: tuple[Access, ...] = ()
    """What it reads and writes in place: the node's ``init``, for one that has it."""
    parts: tuple[Box, ...] = ()
    """Which part of the node's domain (``Meaning.domain``) it computes, as boxes in the order of
    its dimensions: none is all, one for all waves, or one per wave. For a copy, boxes of the
    value."""
    is_copy: bool = False
    """Whether it moves a value without computing."""
    counter: str | None = None
    """The counter that tracks it until it retires; None means that it is done at issue. Registers
    are read at issue in every case."""
    entries: int = 0
    """How many entries it adds to ``counter``."""
    issues: tuple[Issue, ...] = ()
    """The instructions it takes, for simulators and writers."""
    latency: int = 0
    """Cycles from issue to result, where the maker of the program knows; 0 leaves it to the
    target's facts."""
    when: str | None = None
    """The node that says whether the step runs at all; None means always."""

    @property
    def accesses(self) -> tuple[Access, ...]:
        """All that it touches."""
        return (*self.reads, *self.writes, *self.accumulates)

    @property
    def sure_entries(self) -> int:
        """The entries that a wait may count on: none of a step that a wave may jump over."""
        return self.entries if self.when is None else 0

    def part(self, wave: int) -> Box | None:
        """The part of the ``wave``-th wave of the group; None means all of the domain.

        Args:
            wave: The wave's place in its group, from 0.
        """
        if not self.parts:
            return None
        return self.parts[wave] if len(self.parts) > 1 else self.parts[0]

    def goes_on(self, before: object) -> bool:
        """Whether it is skipped together with the step before it, under the same condition.

        Args:
            before: The step that stands before this one.
        """
        if not isinstance(before, Work) or self.when is None:
            return False
        return before.when == self.when and before.reads[-1] == self.reads[-1]


@dataclass(frozen=True, slots=True)
class Wait:
    """Block the wave until few enough entries of a counter are outstanding."""

    TAG: ClassVar[str] = "wait"
    """What files call this kind of step."""

    counter: str
    """The counter's name, such as ``vmcnt``."""
    count: int
    """How many entries may still be outstanding; 0 waits for all."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Meet the other waves at a barrier of the target."""

    TAG: ClassVar[str] = "barrier"
    """What files call this kind of step."""

    name: str = "workgroup"
    """The target's barrier; ``workgroup`` is ``s_barrier``."""
    label: str = ""
    """Whose it is, where the schedule has none of its own (``stagger``)."""
    phase: int | None = None
    """The phase that it completes, for a barrier with phases; None otherwise."""
    arrive_only: bool = False
    """Arrive without waiting; only for a barrier with phases."""
    arrivals: int | None = None
    """How many arrivals complete the phase."""
    copy: int = 0
    """Which of several barriers of the kind, from 0; only for a kind with phases."""


@dataclass(frozen=True, slots=True)
class Priority:
    """Set the wave's priority (``s_setprio``)."""

    TAG: ClassVar[str] = "priority"
    """What files call this kind of step."""

    level: int
    """0 to 3; the SIMD prefers waves of a higher level."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A line that a compiler must move nothing across; it is no instruction."""

    TAG: ClassVar[str] = "fence"
    """What files call this kind of step."""

    mask: int = 0
    """Which instructions may cross, as in ``sched_barrier``; 0 lets none."""
    size: int = 0
    """How many instructions the hint is about, as in ``sched_group_barrier``."""
    label: str = ""
    """What pages call it."""


Step: TypeAlias = Work | Wait | Barrier | Priority | Fence
"""What a wave executes next: ``Work``, ``Wait``, ``Barrier``, ``Priority`` or ``Fence``."""

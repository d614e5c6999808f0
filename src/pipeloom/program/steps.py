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
    """A part of a resource.

    ``boxes`` are in the resource's own coordinates, where different coordinates are different
    storage: none means all of it, one is the same for all waves, else there is one per wave of the
    group. ``copy`` is the copy of a rotating resource. ``generation`` is the iteration, relative to
    the step's section like ``Work.iteration``, whose value is meant; it is a statement for people
    and pages, which the verifier does not rely on. A ``shared`` access is cooperative: each wave of
    the group touches a slice of the box that the layout decides, all of them together touch it
    all. A proof must hold for every way of slicing.
    """

    resource: str
    boxes: tuple[Box, ...] = ()
    copy: int = 0
    generation: int | None = None
    shared: bool = False

    def box(self, wave: int) -> Box | None:
        """The box of the ``wave``-th wave of the group; None means all of the resource."""
        if not self.boxes:
            return None
        return self.boxes[wave] if len(self.boxes) > 1 else self.boxes[0]


class Unit(Enum):
    """Which part of a compute unit an instruction occupies."""

    MATRIX = "matrix"
    VECTOR = "vector"
    TRANS = "trans"  # transcendental vector instructions
    PACKED = "packed"  # packed f32 vector instructions
    LDS_READ = "lds_read"
    LDS_WRITE = "lds_write"
    LOAD_LDS = "load_lds"  # global memory straight to LDS
    LOAD = "load"  # global memory to registers
    STORE = "store"
    SCALAR = "scalar"


@dataclass(frozen=True, slots=True)
class Issue:
    """``count`` instructions of one kind, as a simulator prices them.

    ``shape`` names the matrix instruction (``16x16x32_f16``); memory instructions move ``bytes``
    per lane. ``conflict`` is the factor of LDS bank conflicts.
    """

    unit: Unit
    count: int = 1
    shape: str = ""
    bytes: int = 0
    conflict: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One op, or a part of one.

    ``node`` is the node of the meaning that it computes, or, for a copy, the one whose value it
    moves. ``parts`` are boxes of the node's domain (``Meaning.domain``) in the order of its
    dimensions, given like ``Access.boxes``: none is all, one for all waves, or one per wave. For a
    copy they are boxes of the value.

    ``reads`` stand in the order of the node's ``uses``; a node with ``init`` names it in
    ``accumulates`` (read and written in place), otherwise the result goes to ``writes``. A copy has
    one read and one write. Reading a STREAM, RESIDENT, SCALAR or CONSTANT node's own name means
    global memory, a kernel argument or an immediate, and writing an OUTPUT's name means memory.

    ``iteration`` is relative to the section it stands in; None outside of iterations (BEFORE and
    AFTER). ``entries`` are what it adds to ``counter`` until it retires; without a counter it is
    done at issue. Registers are read at issue in every case. ``latency`` is in cycles, from issue
    to result, where the maker of the program has one; 0 leaves it to the target's facts. ``when``
    is the node that says whether the step runs at all.
    """

    TAG: ClassVar[str] = "work"

    node: str
    label: str
    iteration: int | None
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    accumulates: tuple[Access, ...] = ()
    parts: tuple[Box, ...] = ()
    is_copy: bool = False
    counter: str | None = None
    entries: int = 0
    issues: tuple[Issue, ...] = ()
    latency: int = 0
    when: str | None = None

    @property
    def accesses(self) -> tuple[Access, ...]:
        """All that it touches."""
        return (*self.reads, *self.writes, *self.accumulates)

    def part(self, wave: int) -> Box | None:
        """The part of the ``wave``-th wave of the group; None means all of the domain."""
        if not self.parts:
            return None
        return self.parts[wave] if len(self.parts) > 1 else self.parts[0]

    def goes_on(self, before: object) -> bool:
        """Whether it is skipped together with the step before it, under the same condition."""
        if not isinstance(before, Work) or self.when is None:
            return False
        return before.when == self.when and before.reads[-1] == self.reads[-1]


@dataclass(frozen=True, slots=True)
class Wait:
    """Block until at most ``count`` entries of ``counter`` are outstanding."""

    TAG: ClassVar[str] = "wait"

    counter: str
    count: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """Meet the other waves at a barrier of the target.

    ``label`` says whose it is where the schedule has none (``stagger``). Of a kind with phases a
    kernel has several, told apart by ``copy``; they name the ``phase`` that they complete and how
    many ``arrivals`` complete it, and may only arrive.
    """

    TAG: ClassVar[str] = "barrier"

    name: str = "workgroup"
    label: str = ""
    phase: int | None = None
    arrive_only: bool = False
    arrivals: int | None = None
    copy: int = 0


@dataclass(frozen=True, slots=True)
class Priority:
    """``s_setprio``."""

    TAG: ClassVar[str] = "priority"

    level: int


@dataclass(frozen=True, slots=True)
class Fence:
    """A compiler must move nothing across; no instruction. ``mask`` and ``size`` as in the hint."""

    TAG: ClassVar[str] = "fence"

    mask: int = 0
    size: int = 0
    label: str = ""


Step: TypeAlias = Work | Wait | Barrier | Priority | Fence

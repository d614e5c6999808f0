"""What a check says: a status, for which launches it holds, and findings with their places.

PROVED      every conflicting pair of accesses is ordered by waits and barriers alone
TIMING      some pair is unordered; in simulation the two do not meet, another timing lets them
RACE        some pair is unordered and meets in simulation, or every run is wrong
NOT JUDGED  the kernel could not be run to its end, and nothing wrong was seen before
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pipeloom.judge.happens_before.nominal_clock import unordered
from pipeloom.notebook import fragment, story
from pipeloom.plain import to_plain


class CheckStatus(Enum):
    """The worst finding decides."""

    PROVED = "proved"
    """Waits and barriers alone order every pair of accesses that conflict."""
    TIMING = "timing"
    """Some pair is not ordered; in simulation the two do not meet, another timing lets them."""
    RACE = "race"
    """Some pair is not ordered and meets in simulation, or every run is wrong."""
    NOT_JUDGED = "not judged"
    """The kernel could not be run to its end, and nothing wrong was seen before."""

    @property
    def exit_code(self) -> int:
        """0, 3 and 4 as ``pipeloom verify``; 6 where nothing could be decided."""
        return {"proved": 0, "timing": 3, "race": 4, "not judged": 6}[self.value]

    @property
    def title(self) -> str:
        """What pages and commands print: ``NOT JUDGED``."""
        return self.value.upper()


class CheckKind(Enum):
    """What is wrong."""

    RAW = "raw"
    """A read may come before the write whose data it needs."""
    WAR = "war"
    """A write may land before an earlier read is over."""
    WAW = "waw"
    """Two writes may land in either order."""
    REGISTER = "register"
    """A register is used or overwritten while a load into it may be in flight."""
    UNINITIALISED = "uninitialised"
    """A register or LDS is used that nothing has written."""
    OUT_OF_BOUNDS = "out-of-bounds"
    """An access lies outside every buffer, outside LDS or outside scratch."""
    BARRIER = "barrier"
    """Waves do not meet at a barrier."""
    WORKGROUPS = "workgroups"
    """Two workgroups touch the same global bytes, one writing, and nothing orders them."""
    WAIT_STATES = "wait-states"
    """Too few instructions stand between two where the hardware does not wait by itself."""
    TRAP = "trap"
    """The kernel executed ``s_trap``."""
    DESCRIPTOR = "descriptor"
    """A buffer descriptor of data format 0: its loads give 0 and its stores are lost."""


@dataclass(frozen=True, slots=True)
class Site:
    """An instruction as one wave executed it."""

    pc: int
    """Its offset in bytes from the kernel's first instruction."""
    text: str
    """Its disassembly."""
    wave: int | None = None
    """The wave that executed it; None where it stands for all."""
    line: str = ""
    """``file:line`` where debug information or the assembly has it."""

    def __str__(self) -> str:
        who = "" if self.wave is None else f"wave {self.wave}, "
        line = f" ({self.line})" if self.line else ""
        return f"{who}pc {self.pc:#x}{line}: {self.text}"


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One line of a counterexample: what a wave does next."""

    wave: int
    """The wave that acts."""
    text: str
    """What it does."""
    pc: int | None = None
    """The instruction's offset in bytes; None where it is none."""


@dataclass(frozen=True, slots=True)
class Witness:
    """How the emulator shows a finding: a run that gives another result, or how many did not."""

    tries: int
    """Runs that were made."""
    wrong: int = 0
    """Elements of the output that differ; 0 where no try showed it."""
    seed: int | None = None
    """The seed of the run that shows it."""
    held: tuple[int, ...] = ()
    """Offsets of instructions whose operations land as late as waits allow."""
    eager: tuple[int, ...] = ()
    """Waves that run ahead of all others."""
    slow: tuple[int, ...] = ()
    """Waves that run last."""
    release: int | None = None
    """The instruction behind which the held operations land without waiting any longer."""
    early: tuple[int, int] | None = None
    """For missing wait states, the two instructions, the second of which acted before the first."""
    last_first: bool = False
    """Whether the workgroups ran in the other order."""
    leftover: int | None = None
    """What registers and LDS held that nothing had written."""
    seen: bool = False
    """The recorded run does it; no other is needed."""
    untried: str = ""
    """Why no run was made for it."""

    def __str__(self) -> str:
        if self.seen:
            return "the recorded run does it"
        if self.untried:
            return f"not tried: {self.untried}"
        if not self.wrong:
            return f"no wrong number in {self.tries} tries of the emulator"
        return f"{self.wrong} numbers differ {self._when()}"

    def _when(self) -> str:
        if self.early is not None:
            first, second = self.early
            return f"when pc {second:#x} acts before pc {first:#x} has"
        if self.last_first:
            return "when the workgroups run in the other order"
        if self.leftover is not None:
            return f"when what nothing has written holds {self.leftover:#x}"
        if self.held or self.eager:
            held = ", ".join(f"{pc:#x}" for pc in self.held)
            late = "late" if self.release is None else f"right behind pc {self.release:#x}"
            behind = f"wave {self.slow[0]}" if self.slow else "all others"
            ahead = f", wave {self.eager[0]} ahead of {behind}" if self.eager else ""
            return f"when pc {held} lands {late}{ahead} (seed {self.seed})"
        return f"at seed {self.seed}"


@dataclass(frozen=True, slots=True)
class UnorderedPair:
    """Two more instructions that the same missing wait or barrier leaves unordered."""

    first: Site
    """The access that should have been over before."""
    second: Site
    """The access that comes too early."""
    margin: int | None
    """Cycles between the two, as ``CheckFinding.margin``."""
    instances: int = 1
    """How often the two showed it."""


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One defect: ``first`` should have been over before ``second``, and ``others`` likewise."""

    kind: CheckKind
    """What is wrong."""
    status: CheckStatus
    """How bad it is."""
    second: Site
    """The access that comes too early, or the instruction that is wrong."""
    why: str
    """What fails to order the two."""
    first: Site | None = None
    """The access that should have been over before; None where one instruction is wrong by
    itself."""
    where: str = ""
    """The bytes, registers or buffer in question."""
    margin: int | None = None
    """Cycles between the two, the least of simulated runs with jitter; 0 or less where they
    meet."""
    nominal: bool = False
    """Whether the margin is one of nominal latencies, because the run was not simulated."""
    workgroup: tuple[int, int, int] | None = None
    """The workgroup it was seen in."""
    instances: int = 1
    """How often the same two instructions showed it."""
    source: str = ""
    """Where a broken rule is written."""
    witness: Witness | None = None
    """A run that shows it; None where nobody tried."""
    story: tuple[StoryLine, ...] = ()
    """A counterexample, line by line."""
    others: tuple[UnorderedPair, ...] = ()
    """Pairs that share an instruction with this one or with each other: the same defect, met
    later."""

    @property
    def pairs(self) -> int:
        """Pairs of instructions of this defect; 0 where one instruction is wrong by itself."""
        return 0 if self.first is None else 1 + len(self.others)

    @property
    def cycles(self) -> int | None:
        """The margin that ranks it; None of what is wrong by itself."""
        return self.margin

    @property
    def apart(self) -> str | None:
        """``unordered, margin 18 cycles in simulation``; None of what is wrong by itself."""
        if self.nominal:
            return unordered(None, self.margin)
        return unordered(self.margin, None)

    @property
    def trips(self) -> None:
        """Those of the launch; nothing else was run."""

    def describe(self) -> str:
        """A few lines of text."""
        margin = "" if self.apart is None else f", {self.apart}"
        lines = [f"{self.status.title} {self.kind.value}: {self.where}{margin}".rstrip(": ")]
        if self.first is not None:
            lines.append(f"  first   {self.first}")
        lines += [f"  second  {self.second}", f"  why     {self.why}"]
        if self.others:
            lines.append(f"  also    {len(self.others)} pairs of the same defect")
        if self.witness is not None:
            lines.append(f"  shown   {self.witness}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class LoopCoverage:
    """For which trip counts of a loop the verdict holds."""

    pc: int
    """Where the loop begins, in bytes from the kernel's first instruction."""
    trips: tuple[int, ...]
    """The trip counts that ran."""
    least: int
    """The smallest trip count that the verdict holds for."""
    period: int
    """It holds for every so-many-th trip count from there on."""
    reason: str = ""
    """Why it holds only for those that ran; empty where it holds for more."""
    unlike: bool = False
    """The last trip is unlike the others (it leaves early); so it is in all that is meant."""

    def __str__(self) -> str:
        ran = " and ".join(map(str, self.trips))
        if self.reason:
            return f"loop at pc {self.pc:#x}: {ran} trips only ({self.reason})"
        every = "every number" if self.period == 1 else f"every {self.period}th number"
        last = ", the last like this run's" if self.unlike else ""
        return f"loop at pc {self.pc:#x}: {every} of trips from {self.least} on{last} ({ran} ran)"


def scope(loops: Sequence[LoopCoverage], data: str) -> str:
    """For which launches a judgement holds, in words."""
    which = "this launch"
    if loops and not any(loop.reason for loop in loops):
        plain = all(loop.period == 1 and not loop.unlike for loop in loops)
        least = max(loop.least for loop in loops)
        which = "every trip count" + ("" if plain else " of the same remainder")
        which += f" from {least} on"
    return which + (" with these data" if data else "")


@dataclass(frozen=True, slots=True)
class Needless:
    """A wait or barrier that can be loosened or removed; all of them together."""

    pc: int
    """Where it stands, in bytes from the kernel's first instruction."""
    before: str
    """The instruction as it is."""
    after: str
    """What suffices; empty where it goes altogether."""
    line: str = ""
    """``file:line`` where that is known."""


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """The judgement of one kernel at one launch."""

    kernel: str
    """The kernel's name."""
    arch: str
    """The chip it is for."""
    status: CheckStatus
    """The worst finding decides."""
    findings: tuple[CheckFinding, ...] = ()
    """What is wrong, each with its places."""
    loops: tuple[LoopCoverage, ...] = ()
    """For which trip counts the verdict holds, loop by loop."""
    reason: str = ""
    """Why it was not judged."""
    data: str = ""
    """What depends on the data in the launch's buffers, so that the verdict is for these data."""
    notes: tuple[str, ...] = ()
    """What else is worth knowing."""
    needless: tuple[Needless, ...] = ()
    """Waits and barriers that can be loosened or removed, all of them together."""
    needless_for: str = ""
    """For which launches those are not needed."""
    customary: tuple[CheckFinding, ...] = ()
    """Wait states that only compilers keep; they fail no kernel."""
    dead: tuple[CheckFinding, ...] = ()
    """Accesses outside buffers whose data reach nothing."""
    figures: dict[str, int] = field(default_factory=dict)
    """What was looked at: waves, workgroups, instructions, operations, pairs."""

    @property
    def every_trip_count(self) -> bool:
        """Whether the verdict holds for other trip counts than those that ran."""
        return bool(self.loops) and all(not loop.reason for loop in self.loops)

    @property
    def claim(self) -> str:
        """What PROVED says, in one sentence; nothing of a kernel that is not."""
        if self.status is not CheckStatus.PROVED:
            return ""
        return "every access is ordered; nothing about what it computes"

    def shortest(self) -> CheckFinding | None:
        """The finding to look at first."""
        ranked = sorted(
            self.findings, key=lambda f: (f.status is not CheckStatus.RACE, len(f.story) or 99)
        )
        return ranked[0] if ranked else None

    def summary(self) -> str:
        """One line."""
        if self.status is CheckStatus.NOT_JUDGED:
            return f"NOT JUDGED: {self.reason}"
        if self.status is CheckStatus.PROVED:
            return f"PROVED for {scope(self.loops, self.data)}: {self.claim}"
        kinds = ", ".join(sorted({f.kind.value for f in self.findings}))
        total = len(self.findings)
        counts = Counter(f.status.title for f in self.findings)
        each = ", ".join(f"{count} {title}" for title, count in sorted(counts.items()))
        of_each = f": {each}" if len(counts) > 1 else ""
        plural = "" if total == 1 else "s"
        pairs = sum(f.pairs for f in self.findings)
        more = f", {pairs} pairs" if any(f.others for f in self.findings) else ""
        return f"{self.status.title}: {total} finding{plural}{more}{of_each} ({kinds})"

    def __repr__(self) -> str:
        found = f"{len(self.findings)} findings"
        return f"<CheckVerdict {self.status.title} on {self.kernel} ({self.arch}): {found}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        plain: dict[str, Any] = to_plain(self)
        return {**plain, "claim": self.claim}

    def _repr_html_(self) -> str:
        """For notebooks: the status, how far it reaches, the findings, and the shortest story."""
        rows = [
            (f.status.title, f.kind.value, f.first or "", f.second, f.why) for f in self.findings
        ]
        columns = ("status", "kind", "first", "second", "why")
        html = fragment(f"{self.kernel} ({self.arch})", self.summary(), columns, rows)
        shortest = self.shortest()
        return html if shortest is None else html + story(shortest.where, shortest.story)

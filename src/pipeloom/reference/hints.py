"""AMD instruction-group hints: tell LLVM how to interleave what a loop iteration issues.

``sched_group_barrier(mask, n)`` asks the compiler for n instructions of one group next. The
pattern spreads LDS reads over the MFMAs first, then pairs each LDS write with a global read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from pipeloom.checks import check_fields
from pipeloom.errors import ConfigError
from pipeloom.reference.compiled import ScheduleEntry
from pipeloom.reference.ops import OpDesc, OpRole, Phase

MAX_HINTS = 100_000
"""More hints than any loop has instructions; only a slip in the counts gets there."""


class HintGroup(IntEnum):
    """Instruction groups, as the specification numbers them."""

    DS_READ = 0
    """Reads of LDS."""
    DS_WRITE = 1
    """Writes of LDS."""
    VMEM_READ = 2
    """Loads from global memory."""
    MFMA = 3
    """Matrix instructions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AMDScheduleHints:
    """Instruction counts of one iteration of the single-buffered matmul, per thread."""

    m_mmas: int = 4
    """MMAs of a wave along M."""
    n_mmas: int = 4
    """MMAs of a wave along N."""
    k_mmas: int = 2
    """MMAs of a wave along K in one tile."""
    mma_m: int = 16
    """Rows of the matrix instruction."""
    mma_n: int = 16
    """Columns of the matrix instruction."""
    a_loads_per_thread: int = 2
    """Global loads of A."""
    b_loads_per_thread: int = 2
    """Global loads of B."""

    def __post_init__(self) -> None:
        check_fields(self, 1, a_loads_per_thread=0, b_loads_per_thread=0)

    def pattern_length(self, fragments: int) -> int:
        """How many hints a body with that many fragment loads gets.

        Args:
            fragments: Fragment loads of the body.
        """
        reads = (self.m_mmas + self.n_mmas) * fragments
        return 2 * reads + 4 * (self.a_loads_per_thread + self.b_loads_per_thread)


def append_amd_hints(
    entries: Sequence[ScheduleEntry],
    body: Sequence[OpDesc],
    hints: AMDScheduleHints,
    selector: int = 0,
) -> tuple[ScheduleEntry, ...]:
    """The kernel entries followed by the hint pattern.

    Args:
        entries: The kernel's entries.
        body: The ops of one iteration, whose fragments are counted.
        hints: Instruction counts.
        selector: The subtile of loop-carried fragments.
    """
    fragments = [op for op in body if op.role is OpRole.FRAGMENT_LOAD]
    carried = sum(op.subtile == selector for op in fragments)
    per_fragment = hints.m_mmas + hints.n_mmas
    reads = per_fragment * len(fragments)
    if reads == 0:
        raise ConfigError(
            "AMD hints spread MFMAs over LDS reads, but the body has no fragment load",
            hint="use num_k_tiles >= 1",
            field="num_k_tiles",
        )
    if hints.pattern_length(len(fragments)) > MAX_HINTS:
        raise ConfigError(
            f"AMD hints for {len(fragments)} fragments would append "
            f"{hints.pattern_length(len(fragments))} entries to the kernel, over {MAX_HINTS}",
            hint="the counts are per thread and iteration: lower m_mmas, n_mmas or the loads",
            field="AMDScheduleHints",
        )
    mmas = hints.m_mmas * hints.n_mmas * hints.k_mmas
    stores = hints.a_loads_per_thread + hints.b_loads_per_thread
    per_read = min(1 if hints.mma_m == hints.mma_n == 32 else 2, mmas // reads)
    rest = mmas - reads * per_read
    pattern: list[tuple[HintGroup, int]] = []
    read = [(HintGroup.DS_READ, 1), (HintGroup.MFMA, per_read)]
    pattern += read * (per_fragment * (len(fragments) - carried))
    for i in range(stores):
        share, extra = divmod(rest, stores)
        count = share + (1 if i < extra else 0)
        pattern += [
            (HintGroup.DS_WRITE, 1),
            (HintGroup.MFMA, count // 2),
            (HintGroup.VMEM_READ, 1),
            (HintGroup.MFMA, count - count // 2),
        ]
    pattern += read * (per_fragment * carried)
    return tuple(entries) + tuple(
        ScheduleEntry(OpDesc.sched_group_barrier(int(group), count), slot, Phase.KERNEL)
        for slot, (group, count) in enumerate(pattern, start=len(entries))
    )

"""What a fragment load can see: the heart of the proof.

A region's slice is written by one wave again and again: W1, W2, ... A fragment load F may take its
data at any time between issue and retirement. Under free latencies it can see exactly those Wi

    that do not surely come after F, and
    that no Wj surely covers: Wi happens before Wj and Wj happens before F.

If no Wj surely comes before F, it can also see what stood there at the start: nothing (``None``).
A read is *settled* if all it can see, over the slices of all waves, is one K tile. The set is
exact in both directions: any member can be brought about by some choice of latencies, because a
write can be last before F unless another one must lie between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeloom.judge.verify.schedules.model import happens_before
from pipeloom.judge.verify.schedules.run import Read, Run, WaveClass, Write
from pipeloom.reference.kernels.interface import Region


@dataclass(frozen=True, slots=True)
class Slice:
    """Another look at a region: the slice that a wave of ``owner`` fills, as a reader sees it."""

    owner: WaveClass
    same_wave: bool
    region: Region
    visible: tuple[Write | None, ...]

    @property
    def tiles(self) -> set[int | None]:
        """What the reader may find: K tiles, or ``None`` for nothing yet."""
        return {None if write is None else write.tile for write in self.visible}


def visible_writes(
    read: Read, writes: Sequence[Write], same_wave: bool
) -> tuple[Write | None, ...]:
    """The writes of one slice that ``read`` may see, in program order; ``None`` for none yet."""
    access = read.access
    sure = [w for w in writes if _precedes(w, read, same_wave)]
    seen: list[Write | None] = [] if sure else [None]
    for write in writes:
        if happens_before(access, write.access, same_wave):
            continue
        if any(write is not s and write.access.retire <= s.access.issue for s in sure):
            continue
        seen.append(write)
    return tuple(seen)


def _precedes(write: Write, read: Read, same_wave: bool) -> bool:
    if same_wave and write.access.issue > read.access.issue:
        return False
    return happens_before(write.access, read.access, same_wave)


def slices(run: Run, reader: WaveClass, read: Read) -> Iterator[Slice]:
    """Every slice of the regions that ``read`` takes its data from.

    A wave that never writes a region owns no slice of it; a region that no wave writes is one
    slice in which nothing is ever visible.
    """
    for region in read.regions:
        owners = [kind for kind in run.classes if region in kind.writes]
        if not owners:
            yield Slice(reader, True, region, (None,))
        for owner in owners:
            writes = owner.writes[region]
            if owner is reader:
                yield Slice(owner, True, region, visible_writes(read, writes, True))
            if owner is not reader or len(owner.waves) > 1:
                yield Slice(owner, False, region, visible_writes(read, writes, False))

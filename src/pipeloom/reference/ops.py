"""Operations: what one loop iteration does, before anyone decides when.

An ``OpDesc`` is one operation of the body. A kernel author writes *logical* ops, which say only
what is done (tag, channel, buffer stage, subtile, K offset); ``annotate_ops`` in ``tag_costs`` then
stamps what it costs on a target. The framework adds its own ops (waits, barriers, fences), whose
tags start at 128.

    body = PipelineBody()
    body.load(LOAD_A, ch=0, stage=0, sub=0, k=KOffsetKind.K0)
    body.fan(2, FRAG_A, ch=0)          # two fragment loads, subtile 0 and 1
    body.grid(2, 2, MMA)               # four MMAs: stage is the row, subtile the column
    ops = body.done()
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from types import TracebackType

from pipeloom.checks import check_fields, check_int


class ResourceKind(IntEnum):
    """The unit that executes an op."""

    GLOBAL_MEM = 0
    """Global memory; ``vmcnt`` counts its ops."""
    LDS = 1
    """LDS; ``lgkmcnt`` counts its ops."""
    MMA_UNIT = 2
    """The matrix unit."""
    SCALAR = 3
    """The scalar unit: waits, barriers, priorities."""
    VALU = 4
    """The vector unit, which works independently of the matrix unit."""
    NONE = 255
    """No unit: a logical op, before costs are stamped on it."""


class OpRole(IntEnum):
    """What an op means to the pipeline, whatever its tag."""

    GLOBAL_LOAD = 0
    """Brings a tile from global memory."""
    SHARED_STORE = 1
    """Writes registers to LDS."""
    FRAGMENT_LOAD = 2
    """Reads a fragment from LDS to registers."""
    COMPUTE = 3
    """Multiplies fragments: an MMA."""
    SYNC = 4
    """Waits, or meets other waves."""
    FENCE = 5
    """Orders the compiler or sets a priority; it waits for nothing."""
    VALU_COMPUTE = 6
    """Computes on the vector unit."""
    NONE = 255
    """No role: a logical op, before costs are stamped on it."""


class KOffsetKind(IntEnum):
    """Which K tile a load reads, relative to the loop variable, in multiples of BK."""

    K0 = 0
    """The tile at the loop variable."""
    K1 = 1
    """The tile after it."""
    K_NEXT = 2
    """The tile two after it."""
    K_PREV = 3
    """The tile before it: a completion of what an earlier iteration began to load."""
    NONE = 255
    """The op reads no K tile of its own."""

    @property
    def multiple(self) -> int | None:
        """The offset in K tiles; ``None`` where the op reads no K tile of its own."""
        if self is KOffsetKind.NONE:
            return None
        return -1 if self is KOffsetKind.K_PREV else int(self)

    @property
    def is_prefetch(self) -> bool:
        """Whether a load with this offset fetches for a later use, not for this iteration."""
        return self is not KOffsetKind.K_PREV and self is not KOffsetKind.NONE


class Phase(IntEnum):
    """The three parts of a software pipeline."""

    PROLOGUE = 0
    """Before the loop: it fills the pipeline."""
    KERNEL = 1
    """The loop."""
    EPILOGUE = 2
    """After the loop: it drains the pipeline."""


class OpTag(IntEnum):
    """Tags owned by the framework; 0 to 127 belong to the kernel author."""

    BARRIER = 128
    """``s_barrier``."""
    WAIT_VM = 129
    """``s_waitcnt vmcnt``."""
    WAIT_LGKM = 130
    """``s_waitcnt lgkmcnt``."""
    SET_PRIO = 131
    """``s_setprio``."""
    SCHEDULE_BARRIER = 132
    """A line that the compiler moves nothing across."""
    SCHED_GROUP_BARRIER = 133
    """A compiler hint: which instructions come next."""
    NONE = 255
    """The absent op."""


MAX_KERNEL_TAG = 127
MAX_PRIORITY = 3
"""``s_setprio`` takes two bits, 0 lowest and 3 highest (LLVM, AMDGPUSetWavePriority.cpp)."""
_PLAIN_INT = {int}
_TAGS = frozenset(range(MAX_KERNEL_TAG + 1)) | {int(t) for t in OpTag}


@dataclass(frozen=True, slots=True)
class OpDesc:
    """One operation of the body."""

    tag: int
    """The kind of op: 0 to 127 are the kernel author's, the rest the framework's (``OpTag``)."""
    stage: int = 0
    """The LDS buffer that it touches, from 0; the M row of an MMA."""
    subtile: int = 0
    """The part of the tile, from 0; the N column of an MMA."""
    k_offset: KOffsetKind = KOffsetKind.NONE
    """Which K tile a load reads, relative to the loop variable."""
    vm_cost: int = 0
    """``vmcnt`` entries that it adds."""
    lgkm_cost: int = 0
    """``lgkmcnt`` entries that it adds."""
    wait_value: int = 0
    """How many entries a wait leaves outstanding; the priority that ``s_setprio`` sets; the count
    of a hint."""
    resource: ResourceKind = ResourceKind.NONE
    """The unit that executes it. ``annotate_ops`` stamps it from the cost model, and the three
    below."""
    latency: int = 0
    """Cycles until its result is there, by the cost model."""
    role: OpRole = OpRole.NONE
    """What it means to the pipeline."""
    channel: int = -1
    """The operand: 0 is A, 1 is B, -1 is neither."""
    vgpr_def: int = 0
    """Registers per lane that it takes, by the cost model."""
    vgpr_kill: int = 0
    """Registers per lane that it is the last to need, by the cost model."""

    def __post_init__(self) -> None:
        kinds = {
            type(self.stage),
            type(self.subtile),
            type(self.vm_cost),
            type(self.lgkm_cost),
            type(self.wait_value),
            type(self.latency),
            type(self.channel),
            type(self.vgpr_def),
            type(self.vgpr_kill),
        }
        if not (
            kinds == _PLAIN_INT
            and type(self.role) is OpRole
            and type(self.resource) is ResourceKind
            and type(self.k_offset) is KOffsetKind
            and isinstance(self.tag, int)
            and self.tag in _TAGS
            and type(self.tag) is not bool
            and -1 <= self.channel <= 1
            and min(self.stage, self.subtile, self.vm_cost, self.lgkm_cost) >= 0
            and min(self.wait_value, self.latency, self.vgpr_def, self.vgpr_kill) >= 0
        ):
            self._check_each_field()

    def _check_each_field(self) -> None:
        owned = ", ".join(f"{t.name} {t.value}" for t in OpTag)
        hint = f"kernel tags are 0 to {MAX_KERNEL_TAG}; the framework owns {owned}"
        unknown = self.tag in range(256) and self.tag not in _TAGS
        last = MAX_KERNEL_TAG if unknown else 255
        check_fields(self, tag=(0, last, hint), channel=(-1, 1, "0 is A, 1 is B, -1 is none"))

    @property
    def is_framework(self) -> bool:
        """Whether the framework, not the kernel author, owns this op's tag."""
        return self.tag > MAX_KERNEL_TAG

    @classmethod
    def logical(
        cls,
        tag: int,
        channel: int = -1,
        stage: int = 0,
        subtile: int = 0,
        k_offset: KOffsetKind = KOffsetKind.NONE,
    ) -> OpDesc:
        """What is done and to which data, with no cost: a declaration.

        Args:
            tag: The kind of op.
            channel: The operand: 0 is A, 1 is B, -1 is neither.
            stage: The LDS buffer that it touches; the M row of an MMA.
            subtile: The part of the tile; the N column of an MMA.
            k_offset: Which K tile a load reads.
        """
        return cls(tag, stage, subtile, k_offset, channel=channel)

    @staticmethod
    def barrier() -> OpDesc:
        """``s_barrier``: wait for the other waves, and for nothing else."""
        return _BARRIER

    @staticmethod
    def wait_vm(count: int) -> OpDesc:
        """``s_waitcnt vmcnt(count)``.

        Args:
            count: How many entries may still be outstanding; 0 waits for all.
        """
        return _cached_sync(OpTag.WAIT_VM, OpRole.SYNC, 0, count)

    @staticmethod
    def wait_lgkm(count: int) -> OpDesc:
        """``s_waitcnt lgkmcnt(count)``.

        Args:
            count: How many entries may still be outstanding; 0 waits for all.
        """
        return _cached_sync(OpTag.WAIT_LGKM, OpRole.SYNC, 0, count)

    @staticmethod
    def set_prio(priority: int) -> OpDesc:
        """``s_setprio priority``: the instruction takes two bits.

        Args:
            priority: 0 to 3; the SIMD prefers waves of a higher one.
        """
        hint = f"s_setprio takes a priority of 0 to {MAX_PRIORITY}"
        check_int("OpDesc", "wait_value", priority, 0, MAX_PRIORITY, hint)
        return _cached_sync(OpTag.SET_PRIO, OpRole.FENCE, 0, priority)

    @staticmethod
    def schedule_barrier() -> OpDesc:
        """A fence that stops the compiler from moving instructions; no instruction itself."""
        return _SCHEDULE_BARRIER

    @staticmethod
    def sched_group_barrier(mask: int, count: int) -> OpDesc:
        """A compiler hint: ``count`` instructions of the group ``mask`` come next.

        Args:
            mask: The instruction group.
            count: How many instructions of it.
        """
        return _cached_sync(OpTag.SCHED_GROUP_BARRIER, OpRole.FENCE, mask, count)

    @staticmethod
    def none() -> OpDesc:
        """The absent op."""
        return _NONE


def _cached_sync(tag: OpTag, role: OpRole, subtile: int, wait_value: int) -> OpDesc:
    """Check first: the cache takes 1, 1.0 and True for the same key, and cannot hash a list."""
    check_int("OpDesc", "subtile", subtile, 0)
    check_int("OpDesc", "wait_value", wait_value, 0)
    return _sync(tag, role, subtile, wait_value)


@lru_cache(maxsize=1024)
def _sync(tag: OpTag, role: OpRole, subtile: int, wait_value: int) -> OpDesc:
    return OpDesc(
        int(tag),
        subtile=subtile,
        wait_value=wait_value,
        resource=ResourceKind.SCALAR,
        role=role,
    )


_BARRIER = _sync(OpTag.BARRIER, OpRole.SYNC, 0, 0)
_SCHEDULE_BARRIER = _sync(OpTag.SCHEDULE_BARRIER, OpRole.FENCE, 0, 0)
_NONE = OpDesc(int(OpTag.NONE))


class PipelineBody:
    """Builds the logical body of one iteration, in declaration order.

    The verbs differ only in what they tell the reader: each appends one logical op and returns
    the builder, so that calls chain. Usable in a ``with`` block.
    """

    def __init__(self) -> None:
        self._ops: list[OpDesc] = []

    def __enter__(self) -> PipelineBody:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def __len__(self) -> int:
        return len(self._ops)

    def __iter__(self) -> Iterator[OpDesc]:
        return iter(self._ops)

    def op(
        self,
        tag: int,
        *,
        ch: int = -1,
        stage: int = 0,
        sub: int = 0,
        k: KOffsetKind = KOffsetKind.NONE,
    ) -> PipelineBody:
        """Append one logical op.

        Args:
            tag: The kind of op.
            ch: The operand: 0 is A, 1 is B, -1 is neither.
            stage: The LDS buffer that it touches; the M row of an MMA.
            sub: The part of the tile; the N column of an MMA.
            k: Which K tile a load reads.
        """
        self._ops.append(OpDesc.logical(tag, ch, stage, sub, k))
        return self

    load = op
    """``op``, said of a global load."""
    store = op
    """``op``, said of a store to LDS."""
    frag = op
    """``op``, said of a fragment load."""
    compute = op
    """``op``, said of an MMA."""

    def barrier(self) -> PipelineBody:
        """Append a workgroup barrier."""
        self._ops.append(OpDesc.barrier())
        return self

    def fan(
        self,
        n: int,
        tag: int,
        *,
        ch: int = -1,
        stage: int = 0,
        k: KOffsetKind = KOffsetKind.NONE,
    ) -> PipelineBody:
        """Append ``n`` ops that differ only in subtile, 0 to n-1.

        Args:
            n: How many.
            tag: The kind of op.
            ch: The operand: 0 is A, 1 is B, -1 is neither.
            stage: The LDS buffer that they touch; the M row of MMAs.
            k: Which K tile loads read.
        """
        check_int("PipelineBody.fan", "n", n, 0)
        for sub in range(n):
            self.op(tag, ch=ch, stage=stage, sub=sub, k=k)
        return self

    def grid(
        self, m: int, n: int, tag: int, *, ch: int = -1, k: KOffsetKind = KOffsetKind.NONE
    ) -> PipelineBody:
        """Append an m x n grid, row by row: stage is the row, subtile the column.

        Args:
            m: Rows.
            n: Columns.
            tag: The kind of op.
            ch: The operand: 0 is A, 1 is B, -1 is neither.
            k: Which K tile loads read.
        """
        check_int("PipelineBody.grid", "m", m, 0)
        check_int("PipelineBody.grid", "n", n, 0)
        for row in range(m):
            self.fan(n, tag, ch=ch, stage=row, k=k)
        return self

    def extend(self, other: PipelineBody) -> PipelineBody:
        """Absorb the ops of another builder, in its order.

        Args:
            other: The builder to take ops from; it stays as it is.
        """
        self._ops.extend(list(other))
        return self

    def done(self) -> list[OpDesc]:
        """The declared ops; a fresh list on each call."""
        return list(self._ops)

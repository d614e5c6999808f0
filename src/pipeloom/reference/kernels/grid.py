"""The double-buffered matmuls: the shipped ones, and any grid of MMAs for schedules of your own.

C[M,N] = A[M,K] x B[N,K]^T, A cut into ``rows`` regions and B into ``columns``, each operand in two
LDS stages. Ops are told apart by role and operand, so any tags will do:

    load A (stage s, sub h)       all waves together fill region h of A, stage s
    fragment A (stage s, sub q)   each wave reads its q-th part of A into fragment A q
    MMA (i, j)                    fragment A i times fragment B j, into accumulator (i, j)

and so for B. Waves stand ``waves[0]`` along M by ``waves[1]`` along N. Part q of a wave is its
slice of region q; or, where the rows of each wave are ``together``, the q-th of these. A schedule
of your own gets this kernel from its roles and channels (``derived``); one whose waves stand
otherwise says so in its ``kernel`` hook:

    def kernel(self, compiled):
        return GridKernel.for_schedule(compiled, waves=(2, 2))

One trip of the loop sums two K tiles and loads two more, so with T trips the kernel sums 2T + 2
tiles: the prologue is at k_base 0, the loop at k_base 2, 4, ..., 2T (in tiles), the epilogue at
2T + 2. Trip count 0 is legal.

Staggered, the second half of the waves executes one more barrier inside the prologue, so from there
on it is one barrier behind, and the first half makes up for it with one at the end; else all waves
are one group and the kernel adds no barrier: what orders a prologue load before the loop must stand
in the entries.

``ping_pong`` is such a kernel: eight waves, 2 by 4, and while the first row of them multiplies, the
second loads. That row alone reads region 1 of A, and it reads late, which is why the schedule loads
A(other stage, sub 1) late, as the "completion" load. ``four_wave`` has four waves, 2 by 2, in step,
and each of them reads every region.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipeloom.checks import check_bool, check_instance, check_int
from pipeloom.errors import ConfigError
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels.mapping import (
    NO_EFFECT,
    Accumulator,
    EntryRun,
    Kernel,
    LdsRead,
    LdsRegion,
    OpEffect,
    Part,
    RegisterSet,
    WaitCounter,
    WalkBuilder,
)
from pipeloom.reference.ops import OpDesc, OpRole, Phase

OPERANDS = ("A", "B")
STAGES = 2
SHIPPED_TAGS = {0: 0, 1: 1, 3: 0, 4: 1}
"""Tags of the shipped schedules' loads and fragments, and the operand of each: 0 is A, 1 is B."""
UNSET_LGKM_ENTRIES = 1
"""What a proof takes for a fragment whose lgkm cost is unset (specification, KERNELS.md 4.2)."""
_READS_AN_OPERAND = (OpRole.GLOBAL_LOAD, OpRole.FRAGMENT_LOAD)


@dataclass(frozen=True, slots=True)
class OperandCosts:
    """Counter entries per op and wave, for A and B."""

    vm: tuple[int, int]
    """vmcnt entries of one global load of A, and of B."""
    lgkm: tuple[int, int]
    """lgkmcnt entries of one fragment load of A, and of B."""

    @classmethod
    def of(cls, compiled: CompiledSchedule) -> OperandCosts:
        """The pipeline's costs; an lgkm cost unset there is the scheduler's, else one entry.

        Args:
            compiled: the schedule.
        """
        config, knobs = compiled.config, compiled.schedule_config
        return cls(
            vm=(config.vm_per_load_a, config.vm_per_load_b),
            lgkm=(
                config.lgkm_per_load_a or knobs.lgkm_per_load_a or UNSET_LGKM_ENTRIES,
                config.lgkm_per_load_b or knobs.lgkm_per_load_b or UNSET_LGKM_ENTRIES,
            ),
        )


class GridKernel(Kernel):
    """Two LDS stages per operand and a ``rows`` x ``columns`` grid of MMAs per wave.

    Args:
        rows: MMAs along M.
        columns: MMAs along N.
        channels: the operand of each load and fragment tag, 0 for A and 1 for B.
        costs: counter entries per op.
        waves: waves along M and along N.
        staggered: whether the second half of the waves runs one barrier behind.
        together: whether the rows of a wave lie side by side, instead of a slice in each region.
        matches: the field of an MMA that names its A fragment and its B fragment: 0 is its row, 1
            its column.
        name: what messages call it.
    """

    def __init__(
        self,
        rows: int,
        columns: int,
        *,
        channels: Mapping[int, int],
        costs: OperandCosts,
        waves: tuple[int, int] = (2, 2),
        staggered: bool = False,
        together: bool = False,
        matches: tuple[int, int] = (0, 1),
        name: str = "grid",
    ) -> None:
        check_int("GridKernel", "rows", rows, 1)
        check_int("GridKernel", "columns", columns, 1)
        check_bool("GridKernel", "staggered", staggered)
        along_m, along_n = _checked_waves(waves, staggered)
        self.name = name
        self.waves = along_m * along_n
        everyone = tuple(range(self.waves))
        half = self.waves // 2
        self.groups = (everyone[:half], everyone[half:]) if staggered else (everyone,)
        self.costs = costs
        self._grid = (rows, columns)
        self._matches = matches
        self._regions = (self._grid[matches[0]], self._grid[matches[1]])
        self._along = (along_m, along_n)
        self._together = together
        self._channels = dict(channels)
        self._known = lru_cache(maxsize=None)(self._effect)

    @classmethod
    def for_schedule(
        cls,
        compiled: CompiledSchedule,
        *,
        waves: tuple[int, int] = (2, 2),
        staggered: bool = False,
        together: bool = False,
        name: str = "grid",
    ) -> GridKernel:
        """The kernel with the grid and the counter costs that ``compiled`` was made for.

        Args:
            compiled: the schedule.
            waves: waves along M and along N.
            staggered: whether the second half of the waves runs one barrier behind.
            together: whether the rows of a wave lie side by side.
            name: what messages call it.
        """
        check_instance("GridKernel", "compiled", compiled, CompiledSchedule)
        config = compiled.config
        return cls(
            config.m_mmas,
            config.n_mmas,
            channels=channels_by_tag(compiled.body),
            costs=OperandCosts.of(compiled),
            waves=waves,
            staggered=staggered,
            together=together,
            matches=(config.ch0_match_field, config.ch1_match_field),
            name=name,
        )

    @property
    def tiles_per_iteration(self) -> int:
        """Two: one per stage."""
        return STAGES

    def tiles(self, trips: int) -> int:
        """2 trips + 2.

        Args:
            trips: how often the loop runs.
        """
        return STAGES * (trips + 1)

    def accumulators(self) -> tuple[Accumulator, ...]:
        """The whole grid, row by row."""
        rows, columns = self._grid
        return tuple(Accumulator(i, j) for i in range(rows) for j in range(columns))

    def walk(self, compiled: CompiledSchedule, wave: int, trips: int) -> tuple[EntryRun, ...]:
        """Prologue, loop, epilogue; of two groups, with the stagger and the barriers it needs.

        A ``warp_stagger_index`` past the prologue means no stagger: neither the extra barrier nor
        the closing one is executed.

        Args:
            compiled: the schedule.
            wave: whose steps.
            trips: how often the loop runs.
        """
        walk = WalkBuilder()
        prologue, at = compiled.prologue, compiled.warp_stagger_index
        two_groups = len(self.groups) > 1
        staggered = two_groups and at <= len(prologue)
        lags = self.group_of(wave) == 1
        walk.entries(prologue[:at], 0)
        if staggered and lags:
            walk.own_barrier("stagger", Phase.PROLOGUE, 0)
        walk.entries(prologue[at:], 0, first_slot=at)
        if two_groups:
            walk.own_barrier("after the prologue", Phase.PROLOGUE, 0)
        for trip in range(trips):
            walk.entries(compiled.kernel, STAGES * (trip + 1), trip)
        last = STAGES * (trips + 1)
        walk.entries(compiled.epilogue, last)
        if staggered and not lags:
            walk.own_barrier("closing", Phase.EPILOGUE, last)
        return walk.done()

    def effect(self, step: EntryRun, wave: int) -> OpEffect:
        """Loads fill regions, fragments read them, MMAs read fragments.

        Args:
            step: one entry as the wave executes it.
            wave: who executes it.
        """
        if step.op.is_framework:
            return NO_EFFECT
        return self._known(step.op, step.tile, wave)

    def _effect(self, op: OpDesc, tile: int | None, wave: int) -> OpEffect:
        if op.role is OpRole.COMPUTE:
            rows, columns = self._grid
            if op.stage >= rows or op.subtile >= columns:
                raise self._no_place(op, f"the MMA grid is {rows}x{columns}", "OpDesc.stage")
            a, b = ((op.stage, op.subtile)[field] for field in self._matches)
            return OpEffect(
                register_reads=(RegisterSet("A", a), RegisterSet("B", b)),
                accumulator=Accumulator(op.stage, op.subtile),
            )
        if op.role not in _READS_AN_OPERAND:
            raise ConfigError(
                f"the {self.name} kernel does not know what {describe_op(op)} of role "
                f"{op.role.name} touches",
                hint="it knows GLOBAL_LOAD, FRAGMENT_LOAD and COMPUTE; declare others as a Loop",
                field="OpDesc.role",
            )
        channel = self._channel(op)
        operand, regions = OPERANDS[channel], self._regions[channel]
        if op.stage >= STAGES:
            raise self._no_place(op, f"there are {STAGES} LDS stages", "OpDesc.stage")
        if op.subtile >= regions:
            raise self._no_place(op, f"{operand} has {regions} regions", "OpDesc.subtile")
        if op.role is OpRole.GLOBAL_LOAD:
            return self._load(op, channel, tile)
        region, part = self._source(channel, op.subtile, wave)
        return OpEffect(
            WaitCounter.LGKM,
            op.lgkm_cost or self.costs.lgkm[channel],
            lds_reads=(LdsRead(LdsRegion(operand, op.stage, region), part),),
            register_writes=(RegisterSet(operand, op.subtile),),
        )

    def _load(self, op: OpDesc, channel: int, tile: int | None) -> OpEffect:
        if tile is None:
            raise ConfigError(
                f"the {self.name} kernel cannot tell which K tile {describe_op(op)} brings",
                hint="give the load a k_offset of K_PREV, K0, K1 or K_NEXT",
                field="OpDesc.k_offset",
            )
        return OpEffect(
            WaitCounter.VM,
            op.vm_cost or self.costs.vm[channel],
            tile=tile,
            lds_writes=(LdsRegion(OPERANDS[channel], op.stage, op.subtile),),
        )

    def _source(self, channel: int, quadrant: int, wave: int) -> tuple[int, Part]:
        """Which region, and which of its rows, hold fragment ``quadrant`` of ``wave``."""
        along, regions = self._along[channel], self._regions[channel]
        place = divmod(wave, self._along[1])[channel]
        if not self._together:
            return quadrant, Part(place, along)
        region, number = divmod(place * regions + quadrant, along)
        return region, Part(number, along)

    def _channel(self, op: OpDesc) -> int:
        """The op's own, or that of its tag: the loads of a prologue carry no channel."""
        channel = op.channel if op.channel >= 0 else self._channels.get(op.tag)
        if channel is None:
            raise ConfigError(
                f"the {self.name} kernel cannot tell whether {describe_op(op)} is of A or of B",
                hint="give loads and fragments ch=0 (A) or ch=1 (B)",
                field="OpDesc.channel",
            )
        return channel

    def _no_place(self, op: OpDesc, why: str, field: str) -> ConfigError:
        return ConfigError(
            f"the {self.name} kernel has no place for {describe_op(op)}: {why}",
            hint="stages and subtiles count from 0; change m_mmas and n_mmas, or the op",
            field=field,
        )


def ping_pong(compiled: CompiledSchedule) -> GridKernel:
    """Eight waves, 2 x 4, staggered by one barrier."""
    return _shipped(compiled, waves=(2, 4), staggered=True, together=True)


def four_wave(compiled: CompiledSchedule) -> GridKernel:
    """Four waves, 2 x 2, in step."""
    return _shipped(compiled, waves=(2, 2))


def _shipped(
    compiled: CompiledSchedule,
    *,
    waves: tuple[int, int],
    staggered: bool = False,
    together: bool = False,
) -> GridKernel:
    return GridKernel(
        2,
        2,
        channels=SHIPPED_TAGS,
        costs=OperandCosts.of(compiled),
        waves=waves,
        staggered=staggered,
        together=together,
        name=compiled.schedule,
    )


def channels_by_tag(body: Sequence[OpDesc]) -> dict[int, int]:
    """Load and fragment tags of ``body`` with the operand each stands for: 0 is A, 1 is B."""
    found: dict[int, int] = {}
    for op in body:
        if op.role not in _READS_AN_OPERAND or op.channel < 0:
            continue
        if found.setdefault(op.tag, op.channel) != op.channel:
            raise ConfigError(
                f"op tag {op.tag} stands for both A and B",
                hint="give the loads and fragments of A and of B tags of their own",
                field="OpDesc.tag",
            )
    return found


def _checked_waves(waves: object, staggered: bool) -> tuple[int, int]:
    if not isinstance(waves, tuple) or len(waves) != 2:
        raise ConfigError(
            f"GridKernel.waves is {waves!r}, but must be two counts",
            hint="waves along M and along N, for example waves=(2, 2)",
            field="GridKernel.waves",
        )
    along_m, along_n = waves
    check_int("GridKernel", "waves[0]", along_m, 1)
    check_int("GridKernel", "waves[1]", along_n, 1)
    if staggered and along_m * along_n % 2:
        raise ConfigError(
            f"GridKernel.staggered is True, but {along_m}x{along_n} waves make no two equal groups",
            hint="use an even number of waves, or staggered=False",
            field="GridKernel.staggered",
        )
    return along_m, along_n

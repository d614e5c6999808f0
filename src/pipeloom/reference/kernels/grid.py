"""A double-buffered matmul with any grid of MMAs, for schedules of your own.

C = A x B^T, A cut into ``rows`` regions and B into ``columns``, each operand in two LDS stages. Ops
are told apart by role and operand, not by fixed tags, so any tags will do:

    load A (stage s, sub h)       all waves together fill region h of A, stage s
    fragment A (stage s, sub q)   each wave reads its slice of region q into fragment A q
    MMA (i, j)                    fragment A i times fragment B j, into accumulator (i, j)

and so for B. Waves stand ``waves[0]`` along M by ``waves[1]`` along N; a wave reads the slice of
its M row from A, of its N column from B. A schedule names its kernel in its ``kernel`` hook:

    def kernel(self, compiled):
        return GridKernel.for_schedule(compiled, waves=(2, 2))

The K loop is that of the shipped double buffers: the prologue at k_base 0, the loop at k_base 2, 4,
..., 2T (in K tiles), the epilogue at 2T + 2. Staggered, the second half of the waves runs one
barrier behind, as in the ping-pong; else all waves are one group and the kernel adds no barrier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeloom.checks import check_bool, check_instance, check_int
from pipeloom.errors import ConfigError
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.graph import describe_op
from pipeloom.reference.kernels.double_buffer import (
    CHANNEL,
    STAGES,
    DoubleBufferKernel,
    OperandCosts,
)
from pipeloom.reference.kernels.interface import Accumulator, Effect, Part
from pipeloom.reference.ops import OpDesc, OpRole

OPERANDS = ("A", "B")
_READS_AN_OPERAND = (OpRole.GLOBAL_LOAD, OpRole.FRAGMENT_LOAD)


class GridKernel(DoubleBufferKernel):
    """Two LDS stages per operand and a ``rows`` x ``columns`` grid of MMAs per wave."""

    name = "grid"

    def __init__(
        self,
        rows: int,
        columns: int,
        *,
        channels: Mapping[int, int],
        costs: OperandCosts,
        waves: tuple[int, int] = (2, 2),
        staggered: bool = False,
    ) -> None:
        check_int("GridKernel", "rows", rows, 1)
        check_int("GridKernel", "columns", columns, 1)
        check_bool("GridKernel", "staggered", staggered)
        along_m, along_n = _checked_waves(waves, staggered)
        self.waves = along_m * along_n
        everyone = tuple(range(self.waves))
        half = self.waves // 2
        self.groups = (everyone[:half], everyone[half:]) if staggered else (everyone,)
        super().__init__(costs)
        self._regions = (rows, columns)
        self._along = (along_m, along_n)
        self._channels = dict(channels)

    @classmethod
    def for_schedule(
        cls,
        compiled: CompiledSchedule,
        *,
        waves: tuple[int, int] = (2, 2),
        staggered: bool = False,
    ) -> GridKernel:
        """The kernel with the grid and the counter costs that ``compiled`` was made for."""
        check_instance("GridKernel", "compiled", compiled, CompiledSchedule)
        config = compiled.config
        return cls(
            config.m_mmas,
            config.n_mmas,
            channels=channels_by_tag(compiled.body),
            costs=OperandCosts.of(compiled),
            waves=waves,
            staggered=staggered,
        )

    def accumulators(self) -> tuple[Accumulator, ...]:
        """The whole grid, row by row."""
        rows, columns = self._regions
        return tuple(Accumulator(i, j) for i in range(rows) for j in range(columns))

    def fragment_source(self, operand: str, quadrant: int, wave: int) -> tuple[int, Part]:
        """Region ``quadrant``: the wave's slice of it."""
        channel = CHANNEL[operand]
        return quadrant, Part(divmod(wave, self._along[1])[channel], self._along[channel])

    def _effect(self, op: OpDesc, tile: int | None, wave: int) -> Effect:
        if op.role is OpRole.COMPUTE:
            rows, columns = self._regions
            if op.stage >= rows or op.subtile >= columns:
                raise self._no_place(op, f"the MMA grid is {rows}x{columns}", "OpDesc.stage")
            return self._mma(op)
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
        if op.role is OpRole.FRAGMENT_LOAD:
            return self._fragment(op, operand, wave)
        return self._load(op, operand, tile)

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

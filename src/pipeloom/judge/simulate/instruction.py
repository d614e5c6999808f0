"""What a wave issues: a typed instruction stream.

The engine knows no assembly. It runs ``WaveProgram``s: three lists of ``WaveOp`` (prologue,
loop, epilogue) on a given SIMD. Everything that puts work on the machine, be it a text stream, a
compiled schedule or an emitted kernel, becomes such lists first. Example, one wave that reads a
fragment, waits for it and multiplies::

    loop = (
        WaveOp.lds_read(16, label="A0"),
        WaveOp.wait(lgkm=0),
        WaveOp.mfma(machine.matrix_op("16x16x32_f16")),
    )
    program = WaveProgram(simd=0, loop=loop)

``label`` names an instruction for people; ``section`` and ``entry`` point back to the step of the
program that it came from, so that a picture of the trace can lead there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType

from pipeloom.errors import ConfigError
from pipeloom.machine.cdna import WAVE_LANES
from pipeloom.machine.matrix_ops import MatrixOp
from pipeloom.machine.target import Target
from pipeloom.program.costs import Cost, cost_of
from pipeloom.program.steps import Unit


class Track(IntEnum):
    """Where an instruction executes; one lane of a picture."""

    MATRIX = 0
    VALU = 1
    LDS = 2
    GLOBAL = 3
    SCALAR = 4
    SYNC = 5


class Kind(IntEnum):
    """What an instruction does to the machine: the engine's opcode, where it executes, its price.

    ``priced`` is the unit by whose price (``program/costs.py``) it is issued; what needs no unit
    takes the slot of a scalar instruction.
    """

    track: Track
    priced: Unit

    def __new__(cls, code: int, track: Track, priced: Unit = Unit.SCALAR) -> Kind:
        kind = int.__new__(cls, code)
        kind._value_, kind.track, kind.priced = code, track, priced
        return kind

    MFMA = 0, Track.MATRIX, Unit.MATRIX
    VALU = 1, Track.VALU, Unit.VECTOR
    LDS_READ = 2, Track.LDS, Unit.LDS_READ
    WAIT = 3, Track.SYNC
    GLOBAL_TO_LDS = 4, Track.GLOBAL, Unit.LOAD_LDS
    GLOBAL_TO_VGPR = 5, Track.GLOBAL, Unit.LOAD
    LDS_WRITE = 6, Track.LDS, Unit.LDS_WRITE
    SALU = 7, Track.SCALAR
    BARRIER = 8, Track.SYNC
    TRANS = 9, Track.VALU, Unit.TRANS
    PACKED = 10, Track.VALU, Unit.PACKED
    NOP = 11, Track.SCALAR
    SET_PRIO = 12, Track.SCALAR
    BRANCH = 13, Track.SCALAR
    GLOBAL_STORE = 14, Track.GLOBAL, Unit.STORE
    SCALAR_LOAD = 15, Track.SCALAR


LDS_KINDS = (Kind.LDS_READ, Kind.LDS_WRITE)
LOAD_KINDS = (Kind.GLOBAL_TO_LDS, Kind.GLOBAL_TO_VGPR)
GLOBAL_KINDS = (*LOAD_KINDS, Kind.GLOBAL_STORE)
VALU_KINDS = (Kind.VALU, Kind.TRANS, Kind.PACKED)
ISSUED_AS: Mapping[Unit, Kind] = MappingProxyType(
    {**{kind.priced: kind for kind in Kind}, Unit.SCALAR: Kind.SALU}
)
"""What an instruction of a unit is."""

MAX_CONFLICT = WAVE_LANES  # every lane on its own


@dataclass(frozen=True, slots=True)
class WaveOp:
    """One instruction of one wave. Build it with the constructors below.

    ``conflict`` multiplies the LDS time of a read or write: 1 is conflict-free, n an n-way bank
    conflict. ``needs`` and ``gives`` name values (registers): an instruction waits for the latest
    earlier MFMA or VALU instruction of its wave that gives what it needs. What memory delivers has
    waits instead. ``chain`` names a value that it needs and gives, as an accumulator.
    ``live`` is how many vector registers hold what is still needed, where that is known. ``line``
    is where it was read: the place among an emitted kernel's lines, the line of a stream's text.
    """

    kind: Kind
    matrix_op: MatrixOp | None = None
    bytes_per_lane: int = 0
    conflict: float = 1.0
    vm: int | None = None
    lgkm: int | None = None
    amount: int = 0
    chain: str | None = None
    label: str = ""
    entry: int | None = None
    section: str = ""
    needs: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    live: int | None = None
    line: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        moves = self.unit in (Track.LDS, Track.GLOBAL)
        if moves and self.bytes_per_lane not in (1, 2, 4, 8, 12, 16):
            raise ConfigError(
                f"{self.kind.name}: {self.bytes_per_lane} bytes per lane",
                hint="memory instructions move 1, 2, 4, 8, 12 or 16 bytes per lane",
                field="bytes_per_lane",
            )
        if not 1.0 <= self.conflict <= MAX_CONFLICT:
            raise ConfigError(
                f"{self.kind.name}: conflict {self.conflict} is not between 1 and {MAX_CONFLICT}",
                hint="1 means free of bank conflicts, n an n-way conflict",
                field="conflict",
            )
        for name, count in (("vm", self.vm), ("lgkm", self.lgkm), ("amount", self.amount)):
            if count is not None and count < 0:
                raise ConfigError(
                    f"{self.kind.name}: {name} = {count} is negative",
                    hint="counts start at 0",
                    field=name,
                )

    @property
    def unit(self) -> Track:
        """The unit it executes on."""
        return self.kind.track

    @property
    def matrix_cycles(self) -> int:
        """Cycles the SIMD's matrix unit is busy."""
        return 0 if self.matrix_op is None else self.matrix_op.cycles.value

    def cost(self, machine: Target) -> Cost:
        """Cycles of every unit, by which the engine runs and the trace measures alike."""
        return cost_of(
            self.kind.priced,
            machine,
            op=self.matrix_op,
            bytes_per_lane=self.bytes_per_lane,
            conflict=self.conflict,
        )

    @property
    def bytes(self) -> int:
        """Bytes the whole wave moves."""
        return self.bytes_per_lane * WAVE_LANES

    @classmethod
    def mfma(cls, matrix_op: MatrixOp, *, chain: str | None = None, label: str = "mfma") -> WaveOp:
        """A matrix instruction; with ``chain``, one that accumulates on the chain's last."""
        return cls(Kind.MFMA, matrix_op=matrix_op, chain=chain, label=label)

    @classmethod
    def valu(
        cls, kind: Kind = Kind.VALU, *, chain: str | None = None, label: str = "valu"
    ) -> WaveOp:
        """A vector instruction: plain, transcendental (TRANS) or packed f32 (PACKED)."""
        if kind not in (Kind.VALU, Kind.TRANS, Kind.PACKED):
            raise ConfigError(
                f"{kind.name} is not a vector instruction",
                hint="use Kind.VALU, Kind.TRANS or Kind.PACKED",
                field="kind",
            )
        return cls(kind, chain=chain, label=label)

    @classmethod
    def lds_read(
        cls, bytes_per_lane: int, *, conflict: float = 1.0, label: str = "ds_read"
    ) -> WaveOp:
        """LDS to registers, counted by lgkmcnt."""
        return cls(Kind.LDS_READ, bytes_per_lane=bytes_per_lane, conflict=conflict, label=label)

    @classmethod
    def lds_write(
        cls, bytes_per_lane: int, *, conflict: float = 1.0, label: str = "ds_write"
    ) -> WaveOp:
        """Registers to LDS, counted by lgkmcnt."""
        return cls(Kind.LDS_WRITE, bytes_per_lane=bytes_per_lane, conflict=conflict, label=label)

    @classmethod
    def global_load(cls, bytes_per_lane: int, *, to_lds: bool, label: str = "load") -> WaveOp:
        """Global memory to LDS or to registers, counted by vmcnt."""
        kind = Kind.GLOBAL_TO_LDS if to_lds else Kind.GLOBAL_TO_VGPR
        return cls(kind, bytes_per_lane=bytes_per_lane, label=label)

    @classmethod
    def global_store(cls, bytes_per_lane: int, *, label: str = "store") -> WaveOp:
        """Registers to global memory, counted by vmcnt."""
        return cls(Kind.GLOBAL_STORE, bytes_per_lane=bytes_per_lane, label=label)

    @classmethod
    def wait(cls, *, vm: int | None = None, lgkm: int | None = None) -> WaveOp:
        """``s_waitcnt``: until at most ``vm`` loads and ``lgkm`` LDS operations are outstanding."""
        if vm is None and lgkm is None:
            raise ConfigError(
                "a wait names neither vm nor lgkm", hint="give at least one count", field="vm"
            )
        text = "+".join(
            f"{name}({count})"
            for name, count in (("vmcnt", vm), ("lgkmcnt", lgkm))
            if count is not None
        )
        return cls(Kind.WAIT, vm=vm, lgkm=lgkm, label=text)

    @classmethod
    def barrier(cls, *, label: str = "s_barrier") -> WaveOp:
        """The n-th barrier of a wave releases when every wave is at its n-th."""
        return cls(Kind.BARRIER, label=label)

    @classmethod
    def set_prio(cls, priority: int) -> WaveOp:
        """``s_setprio``: among waves of a SIMD that want the same cycle, the highest goes first."""
        return cls(Kind.SET_PRIO, amount=priority, label=f"s_setprio {priority}")

    @classmethod
    def nop(cls, count: int = 0) -> WaveOp:
        """``s_nop count``."""
        return cls(Kind.NOP, amount=count, label=f"s_nop {count}")

    @classmethod
    def salu(cls, *, label: str = "salu") -> WaveOp:
        """A scalar instruction."""
        return cls(Kind.SALU, label=label)

    @classmethod
    def scalar_load(cls, *, label: str = "s_load") -> WaveOp:
        """Memory to scalar registers, counted by lgkmcnt."""
        return cls(Kind.SCALAR_LOAD, label=label)

    @classmethod
    def branch(cls, *, label: str = "branch") -> WaveOp:
        """The branch back to the loop's head."""
        return cls(Kind.BRANCH, label=label)


@dataclass(frozen=True, slots=True)
class WaveProgram:
    """What one wave runs: the prologue once, the loop per iteration, the epilogue once.

    ``group`` is the wave group (0 or 1 in a ping-pong); the engine does not act on it, traces
    report it. ``workgroup`` numbers those that share the compute unit: barriers are of one.
    """

    simd: int
    loop: tuple[WaveOp, ...]
    prologue: tuple[WaveOp, ...] = ()
    epilogue: tuple[WaveOp, ...] = ()
    group: int = 0
    workgroup: int = 0

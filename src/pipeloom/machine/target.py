"""What a chip is, as numbers a simulator can use, each with where it comes from (``facts``).

``Target`` is nothing but facts: it holds no behaviour, so two readers can argue about a number
without reading the engine. Times are cycles of the shader clock unless the unit says otherwise.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, TypeVar

from pipeloom.checks import check_int, check_known
from pipeloom.errors import ConfigError
from pipeloom.machine.cdna import CDNA, DIRECT_VGPRS, VECTOR_REGISTERS, WAVE_LANES
from pipeloom.machine.cdna_waits import CDNA_WAIT_RULES
from pipeloom.machine.facts import Fact, FactKind
from pipeloom.machine.matrix_ops import MatrixOp, matrix_op_named
from pipeloom.machine.wait_rules import WaitRule, WaitTable, wait_table
from pipeloom.plain import LEFT_OUT_WHILE_USUAL

LOAD_BYTES = 16
"""The widest access of one lane: ``buffer_load_dwordx4``, ``ds_read_b128``."""
BANK_BYTES = REGISTER_BYTES = 4


class Traffic(Enum):
    """The accesses that kernels wait for."""

    GLOBAL = "global"
    """Between global memory and LDS or registers, in either direction."""
    LDS = "lds"
    """Between LDS and registers, in either direction."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A hardware counter of outstanding accesses, which a wait compares with a number.

    Entries retire in the order of their issue.
    """

    name: str
    """What waits call it: ``vmcnt``, ``lgkmcnt``."""
    limit: Fact[int]
    """The largest count that a wait can hold."""
    stalls_when_full: bool = False
    """Whether a vendor states that issue stalls at the limit. Where nobody does, no proof may rely
    on it."""
    counts: Traffic | None = None
    """Which accesses of a kernel it counts; None for a counter that kernels here do not use."""

    def __post_init__(self) -> None:
        check_int(f"Counter {self.name}", "limit", self.limit.value, 1)


@dataclass(frozen=True, slots=True)
class BarrierKind:
    """A barrier that waves can meet at."""

    name: str
    """What a ``Barrier`` step calls it; ``workgroup`` is ``s_barrier``."""
    phases: int = 0
    """0 for a barrier that releases when every wave of the workgroup has arrived as often as the
    one that waits. Otherwise it counts arrivals to an expected number, then changes phase, and this
    is how many phases there are."""


@dataclass(frozen=True, slots=True)
class LdsPhases:
    """Which lanes of a wave one LDS access of a given width serves together, cycle by cycle."""

    bytes_per_lane: int
    """The width of the access in bytes per lane."""
    lanes: tuple[tuple[int, ...], ...]
    """The lanes that are served together, one tuple for each cycle."""
    kind: FactKind
    """How the source knows it."""
    source: str
    """Where it comes from."""

    def cycles(self, addresses: Sequence[int], banks: int) -> int:
        """What an access takes whose lanes want these addresses.

        In each phase every bank delivers one word per cycle, and lanes that want the same word
        share it: the phase takes as many cycles as the busiest bank has words to deliver.

        Args:
            addresses: The byte address of each lane.
            banks: The banks of LDS.
        """
        total = 0
        for lanes in self.lanes:
            words = {
                (addresses[lane] + at) // BANK_BYTES
                for lane in lanes
                for at in range(0, self.bytes_per_lane, BANK_BYTES)
            }
            total += max(Tally(word % banks for word in words).values())
        return total


@dataclass(frozen=True, slots=True)
class Target:
    """A chip as the simulator sees it: one compute unit in detail, the rest as shares."""

    arch: str
    """The LLVM architecture, such as ``gfx950``. Writers choose instructions by it."""
    chip: str
    """The product's name, such as ``MI355X``."""
    barriers: tuple[BarrierKind, ...]
    """The barriers that its waves can meet at."""
    # The chip.
    cus: Fact[int]
    """Compute units of the chip."""
    xcds: Fact[int]
    """Dies with compute units. Each has its own L2."""
    simds: Fact[int]
    """SIMDs of a compute unit. Waves are dealt to them in turn."""
    clock_peak_ghz: Fact[float]
    """The highest shader clock. Peak rates are stated at it."""
    clock_sustained_ghz: Fact[float]
    """The clock under a matrix load, which times in seconds are computed from."""
    hbm_gb_per_s: Fact[float]
    """Bandwidth of the chip's memory, in GB/s."""
    l2_mib_per_xcd: Fact[int]
    """L2 of one die, in MiB."""
    mall_mib: Fact[int]
    """The last-level cache of the chip, in MiB."""
    store_bytes_per_clk: Fact[float]
    """Bytes that one compute unit can store to memory per cycle."""
    # Issue.
    issue_cycles: Fact[int]
    """Cycles between two instructions of one wave."""
    valu_cycles: Fact[int]
    """How long a vector instruction holds the vector port, in cycles."""
    salu_cycles: Fact[int]
    """How long a scalar instruction holds the scalar unit, in cycles."""
    trans_cycles: Fact[int]
    """How long a transcendental instruction (``v_exp_f32``, ``v_rcp_f32``) holds its unit, in
    cycles."""
    valu_dependent_cycles: Fact[int]
    """Cycles from a vector instruction to one of the same wave that uses its result."""
    wait_cycles: Fact[int]
    """Cycles that a wait takes which need not wait."""
    nop_cycles_per_count: Fact[int]
    """Cycles of ``s_nop`` per count."""
    branch_cycles: Fact[int]
    """Cycles of a taken branch, as at the end of each trip of a loop."""
    counters: tuple[Counter, ...]
    """The counters of outstanding accesses that waits compare."""
    barrier_shared_cycles: Fact[int]
    """Cycles of a barrier that nobody is late for, where waves share a SIMD."""
    barrier_alone_cycles: Fact[int]
    """Cycles of a barrier that nobody is late for, where each wave has a SIMD to itself."""
    # The matrix unit.
    mfma_operand_cycles: Fact[int]
    """Cycles after a matrix instruction in which its wave issues nothing, while operands are
    read."""
    mfma_scale_cycles: Fact[int]
    """Cycles that the block-scaled form adds for loading the scales."""
    mfma_dependent_extra: Fact[int]
    """Cycles, beyond those that it holds the unit, until a matrix instruction that uses its result
    can issue."""
    mfma_switch_cycles: Fact[int]
    """Cycles lost where consecutive matrix instructions are of different kinds."""
    mfma_4x4_cycles: Fact[int]
    """Cycles of the smallest matrix instructions (4x4), which no table lists one by one."""
    packed_after_mfma_cycles: Fact[int]
    """Cycles that a packed f32 instruction waits behind a matrix instruction of its wave."""
    # LDS.
    lds_kib: Fact[int]
    """LDS of a compute unit, in KiB. A workgroup's resources must fit."""
    lds_banks: Fact[int]
    """Banks of LDS, each one dword wide."""
    lds_bytes_per_clk: Fact[int]
    """Bytes that the LDS array reads per cycle, for all SIMDs together."""
    lds_return_bytes_per_clk: Fact[int]
    """Bytes per cycle that LDS returns to the registers of one SIMD."""
    lds_latency: Fact[int]
    """Cycles from the issue of an LDS read to its result, with no other traffic."""
    lds_queue_delay: Fact[int]
    """Cycles from the issue of an LDS access to the LDS array."""
    lds_queue_depth: Fact[int]
    """LDS accesses, reads and writes together, that one queue holds before issue stalls."""
    lds_queue_simds: Fact[int]
    """SIMDs that share one LDS queue."""
    lds_write_cycles_per_dword: Fact[int]
    """Cycles that an LDS write holds the array per dword of a lane."""
    # Global memory.
    vmem_queue_depth: Fact[int]
    """Global accesses of one wave that issue freely, before the texture path takes them."""
    vmem_bytes_per_clk: Fact[int]
    """Bytes per cycle through the texture path of a compute unit."""
    vmem_min_cycles: Fact[int]
    """The least time that one global access holds the texture path, in cycles."""
    global_latency: Fact[int]
    """Cycles from the issue of a global load to its data, with no other traffic."""
    global_bytes_in_flight: Fact[int]
    """Bytes that a compute unit can have on the way from memory."""
    global_bytes_per_clk: Fact[float]
    """What one compute unit gets from memory, in bytes per cycle."""
    dma_max_bytes_per_lane: Fact[int]
    """The widest load from global memory straight to LDS, in bytes per lane."""
    matrix_ops: tuple[MatrixOp, ...]
    """The matrix instructions that it has."""
    lds_phases: tuple[LdsPhases, ...]
    """Which lanes an LDS access of each width serves together, from which bank conflicts follow."""
    # Code and registers; the numbers that stand here are those of CDNA3 and CDNA4 alike.
    mfma_result_states: Fact[int] = Fact(
        4,
        "wait states beyond the passes",
        FactKind.VENDOR,
        "LLVM GCNHazardRecognizer, the later of gfx942 and gfx950",
    )
    """Wait states, beyond the instruction's passes, until a vector instruction may read a matrix
    result."""
    extra_instructions: tuple[str, ...] = ()
    """Instructions of the writer's table, matrix ones apart, that not every CDNA chip has."""
    vgprs_per_simd_lane: Fact[int] = Fact(
        VECTOR_REGISTERS,
        "registers",
        FactKind.VENDOR,
        "CDNA3 and CDNA4 ISA: VGPRs and AGPRs, shared by the waves of a SIMD",
    )
    """Registers per lane of a SIMD, VGPRs and AGPRs, which its waves share."""
    direct_vgprs: Fact[int] = Fact(
        DIRECT_VGPRS,
        "registers per wave",
        FactKind.VENDOR,
        "CDNA3 and CDNA4 ISA: v0 to v255, and as many AGPRs",
    )
    """Registers of each kind that an instruction can name."""
    vgpr_granule: Fact[int] = Fact(
        8, "registers", FactKind.VENDOR, "LLVM AMDGPUUsage, compute_pgm_rsrc1 of gfx90a and later"
    )
    """Registers are allocated in multiples of this."""
    sgprs: Fact[int] = Fact(102, "registers per wave", FactKind.VENDOR, "CDNA3 and CDNA4 ISA")
    """Scalar registers of a wave."""
    waves_per_simd: Fact[int] = Fact(8, "waves", FactKind.VENDOR, "CDNA3 and CDNA4 ISA")
    """Waves that a SIMD can hold."""
    wave_lanes: Fact[int] = field(
        default=Fact(WAVE_LANES, "lanes", FactKind.VENDOR, "CDNA3 and CDNA4 ISA"),
        metadata=LEFT_OUT_WHILE_USUAL,
    )
    """Lanes of a wave, each of which moves its own bytes. Always 64; other values are refused."""
    isa: str = field(default=CDNA, metadata=LEFT_OUT_WHILE_USUAL)
    """The instruction set that it executes, by the name of its writer."""
    processor: str = field(default="", metadata=LEFT_OUT_WHILE_USUAL)
    """The processor whose encoding its code has, as LLVM names it, where that is not ``arch``. A
    chip that LLVM does not know is assembled and disassembled as this one."""
    wait_rules: tuple[WaitRule, ...] = field(default=CDNA_WAIT_RULES, metadata=LEFT_OUT_WHILE_USUAL)
    """The wait states that it asks of software: one rule for each danger. The writer inserts them,
    and judges look for them."""

    def __post_init__(self) -> None:
        if self.wave_lanes.value != WAVE_LANES:
            raise ConfigError(
                f"{self.arch} has waves of {self.wave_lanes.value} lanes",
                hint=f"leave wave_lanes out: layouts, the writer and the judges know waves of"
                f" {WAVE_LANES} lanes only",
                field="wave_lanes",
            )

    @property
    def encoded_as(self) -> str:
        """The processor that an assembler knows: ``processor``, or the architecture itself."""
        return self.processor or self.arch

    @property
    def wait_table(self) -> WaitTable:
        """Its ``wait_rules``, to look up."""
        return wait_table(self.wait_rules, self.mfma_result_states.value)

    @property
    def lds_bytes(self) -> int:
        """LDS of a workgroup."""
        return self.lds_kib.value * 1024

    @property
    def bank_row_bytes(self) -> int:
        """One dword of each bank of LDS."""
        return self.lds_banks.value * BANK_BYTES

    def pair_product(self, dtype: str) -> str | None:
        """The instruction that adds the products of two pairs of 16-bit elements to an f32.

        Args:
            dtype: The element type's name.
        """
        name = f"v_dot2_f32_{ {'fp16': 'f16'}.get(dtype, dtype) }"
        return name if name in self.extra_instructions else None

    def multiplies(self, dtype: str) -> bool:
        """Whether matrix instructions multiply a type, which of 8-bit floats are the chip's own.

        Args:
            dtype: The type's name.
        """
        return any(op.multiplies(dtype) for op in self.matrix_ops)

    def lds_load_bytes(self, align: int) -> int:
        """The widest load straight to LDS, per lane, from an array that is so aligned.

        Args:
            align: What the array's beginning and its rows are whole multiples of, in bytes.
        """
        return min(self.dma_max_bytes_per_lane.value, align)

    def vgpr_share(self, waves: int) -> int:
        """Registers per lane, of both kinds, of each of ``waves`` waves in a workgroup.

        Args:
            waves: Waves of the workgroup.
        """
        return self.vgprs_per_simd_lane.value // -(-waves // self.simds.value)

    def more_room(self, waves: int) -> str:
        """What to do where the registers of a wave do not suffice: a hint.

        Args:
            waves: Waves of the workgroup.
        """
        simds = self.simds.value
        if waves < simds:
            return "make the tile smaller, or share it among more waves"
        if waves == simds:
            return "make the tile smaller"
        return f"make the tile smaller, or use at most {simds} waves, so that each SIMD holds one"

    def __repr__(self) -> str:
        return f"<Target {self.arch} ({self.chip})>"

    def facts(self) -> Iterator[tuple[str, Fact[int] | Fact[float]]]:
        """Every scalar fact with its field name, in declaration order."""
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Fact):
                yield item.name, value
            elif item.name == "counters":
                yield from ((f"{counter.name}_limit", counter.limit) for counter in self.counters)

    def with_value(
        self, name: str, value: float, source: str, kind: FactKind = FactKind.ASSUMED
    ) -> Target:
        """A copy with one number changed, for what-if studies; ``source`` says who changed it.

        Args:
            name: The field's name, or a counter's followed by ``_limit``.
            value: The new number, in the unit of the old one.
            source: Who changed it and why.
            kind: How the source knows it.
        """
        known = [field_name for field_name, _ in self.facts()]
        check_known(name, known, f"{self.arch} has no machine constant {name!r}", name)
        if value < 0:
            raise ConfigError(
                f"machine constant {name} = {value} is negative",
                hint="use zero or more",
                field=name,
            )
        old = dict(self.facts())[name]
        kept = int(value) if isinstance(old.value, int) else float(value)
        fact: Fact[Any] = Fact(kept, old.unit, kind, source)
        limits = {f"{counter.name}_limit" for counter in self.counters}
        if name not in limits:
            changed: dict[str, Any] = {name: fact}
            return replace(self, **changed)
        counters = (
            replace(c, limit=fact) if name == f"{c.name}_limit" else c for c in self.counters
        )
        return replace(self, counters=tuple(counters))

    def counter(self, name: str) -> Counter:
        """The counter of that name.

        Args:
            name: The counter's name, such as ``vmcnt``.
        """
        return _named("counter", name, self.counters, self.arch)

    def counting(self, traffic: Traffic) -> Counter:
        """The counter of such accesses.

        Args:
            traffic: The accesses in question.
        """
        for counter in self.counters:
            if counter.counts is traffic:
                return counter
        raise ConfigError(
            f"{self.arch} has no counter of {traffic.value} accesses",
            hint=f"give one of its counters counts=Traffic.{traffic.name}",
            field="counters",
        )

    def barrier(self, name: str) -> BarrierKind:
        """The barrier of that name.

        Args:
            name: The barrier's name, such as ``workgroup``.
        """
        return _named("barrier", name, self.barriers, self.arch)

    def matrix_op(self, name: str) -> MatrixOp:
        """The MFMA a name means.

        Takes the short form (``16x16x32_f16``), the shape alone where it is unambiguous
        (``32x32x16`` is the 16-bit form), and the assembler's names
        (``v_mfma_f32_16x16x32_bf16``). f8f6f4 without a type means fp8, the slowest; an mxfp type
        is block-scaled by definition, so it means the scaled form.

        Args:
            name: The instruction, in any of the forms above.
        """
        found = matrix_op_named(name, self.matrix_ops)
        if found is None:
            raise ConfigError(
                f"{self.arch} has no MFMA {name!r}",
                hint="use one of " + ", ".join(op.name for op in self.matrix_ops),
                field="mfma",
            )
        return found


N = TypeVar("N", Counter, BarrierKind)


def _named(what: str, name: str, items: tuple[N, ...], arch: str) -> N:
    for item in items:
        if item.name == name:
            return item
    known = ", ".join(item.name for item in items)
    raise ConfigError(f"{arch} has no {what} {name!r}", hint=f"it has {known}", field=what)


def lane_groups(size: int) -> tuple[tuple[int, ...], ...]:
    """Consecutive groups of ``size`` lanes."""
    return tuple(tuple(range(start, start + size)) for start in range(0, WAVE_LANES, size))

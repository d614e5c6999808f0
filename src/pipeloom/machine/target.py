"""What a chip is, as numbers a simulator can use, each with where it comes from.

A ``Fact`` is a value, its unit, its source and how the source knows it. ``Target`` is nothing
but facts: it holds no behaviour, so two readers can argue about a number without reading the
engine. Example::

    >>> from pipeloom.machine.gfx950 import GFX950
    >>> GFX950.lds_bytes_per_clk.value
    256
    >>> GFX950.lds_bytes_per_clk.kind
    <FactKind.MEASURED: 'measured'>

Times are cycles of the shader clock unless the unit says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, Generic, TypeVar

from pipeloom.errors import ConfigError

T = TypeVar("T", int, float)

WAVE_LANES = 64
"""Lanes of a wave on CDNA (CDNA3 and CDNA4 ISA)."""
LOAD_BYTES = 16
"""The widest access of one lane: ``buffer_load_dwordx4``, ``ds_read_b128``."""
BANK_BYTES = REGISTER_BYTES = 4


class FactKind(Enum):
    """How the source of a number knows it."""

    VENDOR = "vendor"  # a vendor document
    MEASURED = "measured"  # measured by the source
    DERIVED = "derived"  # arithmetic from other numbers
    EXPLAINED = "explained"  # the source's explanation of a measurement
    ASSUMED = "assumed"  # ours: no source gives it; the comment says why this value


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """One number of the model with its unit and its source."""

    value: T
    unit: str
    kind: FactKind
    source: str


@dataclass(frozen=True, slots=True)
class MatrixOp:
    """One MFMA instruction: an m x n x k product of one wave.

    ``dtype`` names the inputs as streams and tables do; ``takes`` are the element types that it
    multiplies, where those have other names; two of them with each other only where it ``mixes``.
    ``scaled`` marks the block-scaled form, which carries a hidden load of the scales.
    """

    m: int
    n: int
    k: int
    dtype: str
    cycles: Fact[int]
    scaled: bool = False
    takes: tuple[str, ...] = ()
    mixes: bool = False

    def multiplies(self, *types: str, scaled: bool = False) -> bool:
        """Whether it takes operands of these element types together, with block scales or plain."""
        given = set(types)
        if len(given) > 1 and not self.mixes:
            return False
        return self.scaled is scaled and given <= set(self.operands)

    @property
    def operands(self) -> tuple[str, ...]:
        """The element types that it multiplies."""
        return self.takes or (self.dtype,)

    @property
    def result_registers(self) -> int:
        """Registers per lane of its f32 result."""
        return self.m * self.n // WAVE_LANES

    @property
    def name(self) -> str:
        """The name used in streams and tables, for example ``16x16x32_f16``."""
        suffix = "_scaled" if self.scaled else ""
        return f"{self.m}x{self.n}x{self.k}_{self.dtype}{suffix}"

    @property
    def flops(self) -> int:
        """Floating-point operations of one instruction."""
        return 2 * self.m * self.n * self.k


class Traffic(Enum):
    """The accesses that kernels wait for."""

    GLOBAL = "global"  # global memory to LDS or registers, and registers to global memory
    LDS = "lds"  # LDS to registers, and registers to LDS


@dataclass(frozen=True, slots=True)
class Counter:
    """A hardware counter of outstanding accesses, which a wait compares with a number.

    Entries retire in the order of their issue. ``limit`` is the largest count that a wait can hold.
    ``stalls_when_full`` says whether a vendor states that issue stalls at the limit; where nobody
    does, no proof may rely on it. ``counts`` says whose accesses they are, if a kernel's.
    """

    name: str
    limit: Fact[int]
    stalls_when_full: bool = False
    counts: Traffic | None = None


@dataclass(frozen=True, slots=True)
class BarrierKind:
    """A barrier that waves can meet at.

    A barrier without phases releases when every wave of the workgroup has arrived as often as the
    one that waits. One with ``phases`` counts arrivals to an expected number, then changes phase.
    """

    name: str
    phases: int = 0


@dataclass(frozen=True, slots=True)
class LdsPhases:
    """Which lanes of a wave one LDS access of a given width serves together, cycle by cycle."""

    bytes_per_lane: int
    lanes: tuple[tuple[int, ...], ...]
    kind: FactKind
    source: str


@dataclass(frozen=True, slots=True)
class Target:
    """A chip as the simulator sees it: one compute unit in detail, the rest as shares."""

    arch: str
    chip: str
    barriers: tuple[BarrierKind, ...]
    # The chip.
    cus: Fact[int]
    xcds: Fact[int]
    simds: Fact[int]
    clock_peak_ghz: Fact[float]
    clock_sustained_ghz: Fact[float]
    hbm_gb_per_s: Fact[int]
    l2_mib_per_xcd: Fact[int]
    mall_mib: Fact[int]
    store_bytes_per_clk: Fact[float]
    # Issue.
    issue_cycles: Fact[int]
    valu_cycles: Fact[int]
    salu_cycles: Fact[int]
    trans_cycles: Fact[int]
    valu_dependent_cycles: Fact[int]
    wait_cycles: Fact[int]
    nop_cycles_per_count: Fact[int]
    branch_cycles: Fact[int]
    counters: tuple[Counter, ...]
    barrier_shared_cycles: Fact[int]
    barrier_alone_cycles: Fact[int]
    # The matrix unit.
    mfma_operand_cycles: Fact[int]
    mfma_scale_cycles: Fact[int]
    mfma_dependent_extra: Fact[int]
    mfma_switch_cycles: Fact[int]
    mfma_4x4_cycles: Fact[int]
    packed_after_mfma_cycles: Fact[int]
    # LDS.
    lds_kib: Fact[int]
    lds_banks: Fact[int]
    lds_bytes_per_clk: Fact[int]
    lds_return_bytes_per_clk: Fact[int]
    lds_latency: Fact[int]
    lds_queue_delay: Fact[int]
    lds_queue_depth: Fact[int]
    lds_queue_simds: Fact[int]
    lds_write_cycles_per_dword: Fact[int]
    # Global memory.
    vmem_queue_depth: Fact[int]
    vmem_bytes_per_clk: Fact[int]
    vmem_min_cycles: Fact[int]
    global_latency: Fact[int]
    global_bytes_in_flight: Fact[int]
    global_bytes_per_clk: Fact[float]
    dma_max_bytes_per_lane: Fact[int]
    matrix_ops: tuple[MatrixOp, ...]
    lds_phases: tuple[LdsPhases, ...]
    # Code and registers; the numbers that stand here are those of CDNA3 and CDNA4 alike.
    mfma_result_states: Fact[int] = Fact(
        4,
        "wait states beyond the passes",
        FactKind.VENDOR,
        "LLVM GCNHazardRecognizer, the later of gfx942 and gfx950",
    )
    extra_instructions: tuple[str, ...] = ()
    """Instructions of the writer's table, matrix ones apart, that not every CDNA chip has."""
    vgprs_per_simd_lane: Fact[int] = Fact(
        512,
        "registers",
        FactKind.VENDOR,
        "CDNA3 and CDNA4 ISA: VGPRs and AGPRs, shared by the waves of a SIMD",
    )
    direct_vgprs: Fact[int] = Fact(
        256,
        "registers per wave",
        FactKind.VENDOR,
        "CDNA3 and CDNA4 ISA: v0 to v255, and as many AGPRs",
    )
    vgpr_granule: Fact[int] = Fact(
        8, "registers", FactKind.VENDOR, "LLVM AMDGPUUsage, compute_pgm_rsrc1 of gfx90a and later"
    )
    sgprs: Fact[int] = Fact(102, "registers per wave", FactKind.VENDOR, "CDNA3 and CDNA4 ISA")
    waves_per_simd: Fact[int] = Fact(8, "waves", FactKind.VENDOR, "CDNA3 and CDNA4 ISA")

    @property
    def lds_bytes(self) -> int:
        """LDS of a workgroup."""
        return self.lds_kib.value * 1024

    @property
    def bank_row_bytes(self) -> int:
        """One dword of each bank of LDS."""
        return self.lds_banks.value * BANK_BYTES

    def vgpr_share(self, waves: int) -> int:
        """Registers per lane, of both kinds, of each of ``waves`` waves in a workgroup."""
        return self.vgprs_per_simd_lane.value // -(-waves // self.simds.value)

    def more_room(self, waves: int) -> str:
        """What to do where the registers of a wave do not suffice: a hint."""
        simds = self.simds.value
        if waves < simds:
            return "make the tile smaller, or share it among more waves"
        if waves == simds:
            return "make the tile smaller"
        return f"make the tile smaller, or use fewer waves: {simds} share no registers"

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

    def with_value(self, name: str, value: float, source: str) -> Target:
        """A copy with one number changed, for what-if studies; ``source`` says who changed it."""
        known = [field_name for field_name, _ in self.facts()]
        if name not in known:
            raise ConfigError(
                f"{self.arch} has no machine constant {name!r}",
                hint=f"the constants are: {', '.join(known)}",
                field=name,
            )
        if value < 0:
            raise ConfigError(
                f"machine constant {name} = {value} is negative",
                hint="use zero or more",
                field=name,
            )
        old = dict(self.facts())[name]
        kept = int(value) if isinstance(old.value, int) else float(value)
        fact: Fact[Any] = Fact(kept, old.unit, FactKind.ASSUMED, source)
        limits = {f"{counter.name}_limit" for counter in self.counters}
        if name not in limits:
            changed: dict[str, Any] = {name: fact}
            return replace(self, **changed)
        counters = (
            replace(c, limit=fact) if name == f"{c.name}_limit" else c for c in self.counters
        )
        return replace(self, counters=tuple(counters))

    def counter(self, name: str) -> Counter:
        """The counter of that name."""
        return _named("counter", name, self.counters, self.arch)

    def counting(self, traffic: Traffic) -> Counter:
        """The counter of such accesses."""
        for counter in self.counters:
            if counter.counts is traffic:
                return counter
        raise ConfigError(
            f"{self.arch} has no counter of {traffic.value} accesses",
            hint=f"give one of its counters counts=Traffic.{traffic.name}",
            field="counters",
        )

    def barrier(self, name: str) -> BarrierKind:
        """The barrier of that name."""
        return _named("barrier", name, self.barriers, self.arch)

    def matrix_op(self, name: str) -> MatrixOp:
        """The MFMA a name means.

        Takes the short form (``16x16x32_f16``), the shape alone where it is unambiguous
        (``32x32x16`` is the 16-bit form), and the assembler's names
        (``v_mfma_f32_16x16x32_bf16``). f8f6f4 without a type means fp8, the slowest; an mxfp type
        is block-scaled by definition, so it means the scaled form.
        """
        exact = [op for op in self.matrix_ops if op.name == name]
        if exact:
            return exact[0]
        shape = re.search(r"(?<!\d)(\d{1,4})x(\d{1,4})x(\d{1,4})(?!\d)", name)
        if shape is not None:
            m, n, k = (int(part) for part in shape.groups())
            text = name.lower()
            scaled = "scale" in text or "mxfp" in text
            wanted = _dtype_in(text[shape.end() :] + " " + text[: shape.start()])
            found = [op for op in self.matrix_ops if (op.m, op.n, op.k) == (m, n, k)]
            if scaled or not any(not op.scaled for op in found):
                found = [op for op in found if op.scaled == scaled]
            else:
                found = [op for op in found if not op.scaled]
            if wanted is not None:
                found = [op for op in found if op.dtype == wanted]
            if found:
                return found[0]
        raise ConfigError(
            f"{self.arch} has no MFMA {name!r}",
            hint="use one of " + ", ".join(op.name for op in self.matrix_ops),
            field="mfma",
        )


N = TypeVar("N", Counter, BarrierKind)


def _named(what: str, name: str, items: tuple[N, ...], arch: str) -> N:
    for item in items:
        if item.name == name:
            return item
    raise ConfigError(
        f"{arch} has no {what} {name!r}",
        hint=f"it has {', '.join(item.name for item in items)}",
        field=what,
    )


def lane_groups(size: int, lanes: int = 64) -> tuple[tuple[int, ...], ...]:
    """Consecutive groups of ``size`` lanes."""
    return tuple(tuple(range(start, start + size)) for start in range(0, lanes, size))


# The spellings of an input type and the name this package uses for it. The first that occurs in
# a name decides, so longer spellings come before those they contain.
_DTYPE_SPELLINGS = (
    ("mxfp4", "fp4"),
    ("fp4", "fp4"),
    ("fp6", "fp6"),
    ("mxfp8", "fp8"),
    ("f8f6f4", "fp8"),
    ("bf8", "fp8"),
    ("fp8", "fp8"),
    ("xf32", "xf32"),
    ("bf16", "f16"),
    ("fp16", "f16"),
    ("f16", "f16"),
)


def _dtype_in(text: str) -> str | None:
    """The input type a name mentions; bf16 and f16, and bf8 and fp8, run at one speed."""
    for spelling, dtype in _DTYPE_SPELLINGS:
        if spelling in text:
            return dtype
    # What is left may say f32 for the accumulator (`f32_16x16x32`), which decides nothing, or
    # for the input (`16x16x4_f32`).
    return "f32" if re.match(r"_?f(p)?32\b", text) else None

"""A whole GPU as numbers: what the model of one compute unit does not know, one record per chip.

Chips of one architecture run the same code; they differ in clock, power and memory. ``MI325X`` is
a name to tune for, and its kernels are those of gfx942.

Numbers of kind DERIVED whose source is ``FIT`` were fitted, all at once and for all shapes, to
published throughput of matrix products (``python -m evidence.gemm_fit``): a memory system and an
energy per operation for each architecture, no number for a single shape or library.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeloom.errors import ConfigError
from pipeloom.machine.chips import TARGETS, target_for
from pipeloom.machine.facts import Fact, FactKind
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import Target

FIT = "fitted to published GEMM throughput (evidence/gemm_fit.py)"
_VENDOR = "AMD product specification"


@dataclass(frozen=True, slots=True)
class MemorySystem:
    """Latency and bandwidth behind a compute unit, with all of them loading.

    Latency of L2 is in cycles; what lies behind it has a clock of its own, so that is in ns.
    """

    l2_cycles: Fact[float]
    mall_ns: Fact[float]
    hbm_ns: Fact[float]
    mall_gb_per_s: Fact[float]
    hbm_share: Fact[float]
    """Of HBM's peak that a kernel reaches."""
    alias_bytes: Fact[int]
    alias_ns: Fact[float]
    """More latency where rows lie a multiple of ``alias_bytes`` apart, and so on few channels."""


@dataclass(frozen=True, slots=True)
class Energy:
    """What work costs at the peak clock, and how the power of it falls with the clock."""

    pj_per_flop: dict[str, Fact[float]]
    """By type of the elements, block scales or not."""
    pj_per_mall_byte: Fact[float]
    pj_per_hbm_byte: Fact[float]
    exponent: Fact[float]
    """Power goes with this power of the clock: 1 if the voltage stayed, 3 if it fell as far."""
    floor: Fact[float]
    """The share of the peak clock below which the voltage stays."""
    droop: Fact[float]
    """The power that may be drawn falls with this power of a kernel's length (1 at 1 ms)."""

    def per_flop(self, dtype: str, size: float) -> float:
        """Of elements of so many bytes; in proportion to 8-bit ones where none is known."""
        known = self.pj_per_flop.get(dtype.removeprefix("mx"))
        return self.pj_per_flop["fp8"].value * size if known is None else known.value


@dataclass(frozen=True, slots=True)
class Gpu:
    """A chip as a whole; ``target`` is its compute unit."""

    chip: str
    target: Target
    clock_peak_ghz: Fact[float]
    power_w: Fact[float]
    idle_w: Fact[float]
    hbm_gb_per_s: Fact[float]
    memory: MemorySystem
    energy: Energy
    ramp_cycles: Fact[float]
    """Of a workgroup before its loop and after, beyond what is simulated: cold caches, waiting
    for the arguments, the drain of the last stores."""
    start_us: Fact[float]
    """Of a kernel's own time, as profilers give it: until its first waves run, and after its last
    until it counts as done."""
    gap_us: Fact[float]
    """Between two kernels of a stream, in which nothing runs."""

    @property
    def arch(self) -> str:
        """Of its code."""
        return self.target.arch

    @property
    def own(self) -> Target | None:
        """The compute unit, where it is none that is shipped: it has no other name than itself."""
        return None if self.target in TARGETS else self.target


def _fit(value: float, unit: str, others: str = "") -> Fact[float]:
    """With ``others``, what else fits as well once the rest is fitted again (``--intervals``)."""
    return Fact(value, unit, FactKind.DERIVED, f"{FIT}; {others}" if others else FIT)


def _vendor(value: float, unit: str) -> Fact[float]:
    return Fact(value, unit, FactKind.VENDOR, _VENDOR)


_MEMORY = MemorySystem(
    l2_cycles=_fit(417.0, "cycles", "200 to 800 do as well: the sum with mall_ns is what is known"),
    mall_ns=_fit(780.0, "ns", "with l2_cycles"),
    hbm_ns=_fit(72.0, "ns"),
    mall_gb_per_s=_fit(8000.0, "GB/s", "8000 to 10000 do as well, and less was not allowed"),
    hbm_share=Fact(
        0.8, "of the peak", FactKind.ASSUMED, "what streaming kernels reach on HBM, about"
    ),
    alias_bytes=Fact(
        32768,
        "bytes",
        FactKind.EXPLAINED,
        "of products of the same size those with rows of 32 KiB are up to 9 % slower in AITER's"
        " tables; GT: latency is more at large K",
    ),
    alias_ns=_fit(41.0, "ns"),
)
_IDLE = Fact(150.0, "W", FactKind.ASSUMED, "leakage, memory and fabric of a busy board, about")
_RAMP = _fit(4100.0, "cycles", "3500 to 6000 do as well, and hardly less")
_START = _fit(3.9, "us", "3.9 to 5 do as well")
_GAP = _fit(0.84, "us", "0.5 to 1.5 do as well, and less was not allowed")


def _part_of(value: float, source: str) -> Fact[float]:
    return Fact(value, "pJ", FactKind.ASSUMED, f"{source}; none is fitted to it")


BF16_SHARE = 0.928
"""Of fp16's energy: multipliers of 8 bits instead of 11. Fitted on gfx942, which has figures of
both."""
_HALF = "half of a 16-bit one, as the time of an instruction's work is"
_QUARTER = "half of an 8-bit one, as the time of an instruction's work is"


def _energy(per_flop: dict[str, Fact[float]]) -> Energy:
    return Energy(
        pj_per_flop=per_flop,
        pj_per_mall_byte=_fit(14.7, "pJ"),
        pj_per_hbm_byte=_fit(44.8, "pJ"),
        exponent=_fit(1.42, "power"),
        floor=_fit(0.497, "of the peak clock"),
        droop=_fit(0.048, "power"),
    )


def cdna3_energy(fp16: float, bf16_share: float) -> dict[str, Fact[float]]:
    """Energy by type of gfx942: no 8-bit figure of it is published."""
    eight = fp16 / 2
    return {
        "fp16": _fit(fp16, "pJ"),
        "bf16": _fit(fp16 * bf16_share, "pJ"),
        "fp8": _part_of(eight, _HALF),
        "fp4": _part_of(eight / 2, _QUARTER),
    }


def cdna4_energy(bf16: float, fp8: float, bf16_share: float) -> dict[str, Fact[float]]:
    """Energy by type of gfx950: no fp16 figure of it is published."""
    return {
        "fp16": _part_of(bf16 / bf16_share, "as much more than bf16's as on gfx942"),
        "bf16": _fit(bf16, "pJ"),
        "fp8": _fit(fp8, "pJ"),
        "fp4": _part_of(fp8 / 2, _QUARTER),
    }


_CDNA3 = _energy(cdna3_energy(1.313, BF16_SHARE))
_CDNA4 = _energy(cdna4_energy(0.87, 0.329, BF16_SHARE))


def _gpu(chip: str, target: Target, watts: float, energy: Energy, **others: Fact[float]) -> Gpu:
    """``others`` are the clock and the bandwidth, where they are not those of ``target``."""
    return Gpu(
        chip,
        target,
        others.get("clock_peak_ghz", target.clock_peak_ghz),
        _vendor(watts, "W"),
        _IDLE,
        others.get("hbm_gb_per_s", target.hbm_gb_per_s),
        _MEMORY,
        energy,
        _RAMP,
        _START,
        _GAP,
    )


GPUS: tuple[Gpu, ...] = (
    _gpu("MI300X", GFX942, 750, _CDNA3),
    _gpu("MI325X", GFX942, 1000, _CDNA3, hbm_gb_per_s=_vendor(6000, "GB/s")),
    _gpu("MI355X", GFX950, 1400, _CDNA4),
    _gpu("MI350X", GFX950, 1000, _CDNA4, clock_peak_ghz=_vendor(2.2, "GHz")),
)


def gpu_for(name: str | Target) -> Gpu:
    """The chip of that name; of an architecture, the chip that its facts are of.

    A chip of one's own (``machine.chip_file``) is the compute unit of the GPU whose name its own
    begins with (``MI350X, rack 7``), else of the one of its architecture. A clock or bandwidth that
    it changes is the GPU's.
    """
    if isinstance(name, Target):
        first = name.chip.replace(",", " ").split()[:1]
        alike = [gpu for gpu in GPUS if gpu.arch == name.arch and [gpu.chip] == first]
        base = alike[0] if alike else gpu_for(name.arch)
        if name == base.target:
            return base
        found = replace(base, chip=name.chip, target=name)
        if name.clock_peak_ghz != base.target.clock_peak_ghz:
            found = replace(found, clock_peak_ghz=name.clock_peak_ghz)
        if name.hbm_gb_per_s != base.target.hbm_gb_per_s:
            found = replace(found, hbm_gb_per_s=name.hbm_gb_per_s)
        return found
    for gpu in GPUS:
        if name.lower() == gpu.chip.lower():
            return gpu
    if name.lower() not in {target.arch for target in TARGETS}:
        raise ConfigError(
            f"unknown target {name!r}",
            hint="use one of " + ", ".join(f"{g.chip} ({g.arch})" for g in GPUS),
            field="target",
        )
    chip = target_for(name).chip
    return next(gpu for gpu in GPUS if gpu.chip == chip)

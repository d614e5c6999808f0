"""A whole GPU as numbers: what the model of one compute unit does not know, one record per chip.

Chips of one architecture run the same code; they differ in clock, power and memory. ``MI325X`` is
a name to tune for, and its kernels are those of gfx942.

Numbers of kind DERIVED whose source is ``FIT`` were fitted, all at once and for all shapes, to
published throughput of matrix products (``python -m evidence.gemm_model``): a memory system and an
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

FIT = "fitted to published GEMM throughput (evidence/gemm_model.py)"
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

    pj_per_flop: dict[float, Fact[float]]
    """By bytes of an element."""
    pj_per_mall_byte: Fact[float]
    pj_per_hbm_byte: Fact[float]
    exponent: Fact[float]
    """Power goes with this power of the clock: 1 if the voltage stayed, 3 if it fell as far."""
    floor: Fact[float]
    """The share of the peak clock below which the voltage stays."""
    droop: Fact[float]
    """The power that may be drawn falls with this power of a kernel's length (1 at 1 ms)."""

    def per_flop(self, size: float) -> float:
        """Of elements of so many bytes; in proportion to 8-bit ones where none is known."""
        known = self.pj_per_flop.get(size)
        return self.pj_per_flop[1].value * size if known is None else known.value


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
    launch_us: Fact[float]
    """Between two kernels of a stream."""
    reduce_us: Fact[float]
    """A second kernel after the first, beyond its traffic."""

    @property
    def arch(self) -> str:
        """Of its code."""
        return self.target.arch

    @property
    def own(self) -> Target | None:
        """The compute unit, where it is none that is shipped: it has no other name than itself."""
        return None if self.target in TARGETS else self.target


def _fit(value: float, unit: str) -> Fact[float]:
    return Fact(value, unit, FactKind.DERIVED, FIT)


def _vendor(value: float, unit: str) -> Fact[float]:
    return Fact(value, unit, FactKind.VENDOR, _VENDOR)


_MEMORY = MemorySystem(
    l2_cycles=_fit(296.0, "cycles"),
    mall_ns=_fit(736.0, "ns"),
    hbm_ns=_fit(61.0, "ns"),
    mall_gb_per_s=_fit(3763.0, "GB/s"),
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
    alias_ns=_fit(66.0, "ns"),
)
_IDLE = Fact(150.0, "W", FactKind.ASSUMED, "leakage, memory and fabric of a busy board, about")
_RAMP = _fit(5580.0, "cycles")
_LAUNCH = _fit(9.9, "us")
_REDUCE = Fact(4.0, "us", FactKind.ASSUMED, "a dependent launch with warm code, about")


def _halved(eight: float) -> Fact[float]:
    source = "half of an 8-bit one, as the time of an instruction's work is; none is fitted to it"
    return Fact(eight / 2, "pJ", FactKind.ASSUMED, source)


def _energy(sixteen: float, eight: float) -> Energy:
    return Energy(
        pj_per_flop={2: _fit(sixteen, "pJ"), 1: _fit(eight, "pJ"), 0.5: _halved(eight)},
        pj_per_mall_byte=_fit(19.0, "pJ"),
        pj_per_hbm_byte=_fit(69.0, "pJ"),
        exponent=_fit(1.7, "power"),
        floor=_fit(0.595, "of the peak clock"),
        droop=_fit(0.029, "power"),
    )


# No 8-bit figure of gfx942 is published: half of the 16-bit one, as the work per instruction is.
_CDNA3 = _energy(1.37, 0.685)
_CDNA4 = _energy(1.037, 0.396)


def _gpu(chip: str, target: Target, clock: float, watts: float, hbm: float, energy: Energy) -> Gpu:
    return Gpu(
        chip,
        target,
        _vendor(clock, "GHz"),
        _vendor(watts, "W"),
        _IDLE,
        _vendor(hbm, "GB/s"),
        _MEMORY,
        energy,
        _RAMP,
        _LAUNCH,
        _REDUCE,
    )


GPUS: tuple[Gpu, ...] = (
    _gpu("MI300X", GFX942, 2.1, 750, 5300, _CDNA3),
    _gpu("MI325X", GFX942, 2.1, 1000, 6000, _CDNA3),
    _gpu("MI355X", GFX950, 2.4, 1400, 8000, _CDNA4),
    _gpu("MI350X", GFX950, 2.2, 1000, 8000, _CDNA4),
)


def gpu_for(name: str | Target) -> Gpu:
    """The chip of that name; of an architecture, the chip that its facts are of.

    A chip of one's own (``machine.chip_file``) is the compute unit of the GPU whose name its own
    begins with (``MI350X, rack 7``), else of the one of its architecture.
    """
    if isinstance(name, Target):
        first = name.chip.replace(",", " ").split()[:1]
        alike = [gpu for gpu in GPUS if gpu.arch == name.arch and [gpu.chip] == first]
        base = alike[0] if alike else gpu_for(name.arch)
        return base if name == base.target else replace(base, chip=name.chip, target=name)
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

"""The parts that several spec forms share: targets and tile shapes as people write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from pipeloom.checks import check_known
from pipeloom.errors import ConfigError
from pipeloom.reference.config import BlockSizing, FragOrder, TargetProfile
from pipeloom.reference.geometry import PING_PONG_GRID, KernelGeometry
from pipeloom.reference.mi355x import mi355x_single_buffer_target, mi355x_target

TARGETS: Mapping[str, str] = MappingProxyType(
    {"mi355x": "MI355X (gfx950) as the specification's cost model sees it"}
)
"""Target names with one line each, for ``pipeloom list``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    """A double-buffer target by name, with overrides."""

    name: str = "mi355x"
    vm_per_load_a: int | None = None
    vm_per_load_b: int | None = None
    max_globals: int | None = None
    block_sizing: BlockSizing | None = None
    frag_order: FragOrder | None = None
    latency: Mapping[str, int] = field(default_factory=dict)

    def build(
        self, geometry: KernelGeometry | None = None, wave_grid: tuple[int, int] = PING_PONG_GRID
    ) -> TargetProfile:
        """The profile; counts and max_globals come from here, else the geometry, else defaults."""
        _check_name(self.name)
        vm_a, vm_b = self.vm_per_load_a, self.vm_per_load_b
        if geometry is not None:
            vm_a = geometry.vm_per_load_a if vm_a is None else vm_a
            vm_b = geometry.vm_per_load_b if vm_b is None else vm_b
        sizing = self.block_sizing
        if sizing is not None and self.max_globals not in (None, sizing.max_globals):
            raise ConfigError(
                f"target.max_globals is {self.max_globals}, but target.block_sizing.max_globals is "
                f"{sizing.max_globals}",
                hint="give it in one place, or the same value in both",
                field="target.max_globals",
            )
        max_globals = self.max_globals
        if max_globals is None:
            max_globals = 1 if geometry is None else geometry.max_globals(wave_grid)
        profile = mi355x_target(
            4 if vm_a is None else vm_a,
            4 if vm_b is None else vm_b,
            max_globals if sizing is None else sizing.max_globals,
        )
        pipeline = replace(
            profile.pipeline,
            block_sizing=sizing or profile.pipeline.block_sizing,
            frag_order=self.frag_order or profile.pipeline.frag_order,
        )
        return TargetProfile(profile.cost_model.with_latency(self.latency), pipeline)


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleBufferTargetSpec:
    """A single-buffer target by name, with overrides."""

    name: str = "mi355x"
    latency: Mapping[str, int] = field(default_factory=dict)

    def build(self) -> TargetProfile:
        """The profile."""
        _check_name(self.name)
        profile = mi355x_single_buffer_target()
        return TargetProfile(profile.cost_model.with_latency(self.latency), profile.pipeline)


_SHAPE = ("BM", "BN", "BK", "MMA_M", "MMA_N", "MMA_K", "elem_bytes")
_DERIVED = (
    "simd_width",
    "is_fp8",
    "vm_per_load_a",
    "vm_per_load_b",
    "lgkm_per_load_a",
    "lgkm_per_load_b",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometrySpec:
    """A tile shape; what is left out of the counter costs is derived from the shape."""

    BM: int = 256
    BN: int = 256
    BK: int
    MMA_M: int = 16
    MMA_N: int = 16
    MMA_K: int
    elem_bytes: int
    simd_width: int | None = None
    is_fp8: bool | None = None
    vm_per_load_a: int | None = None
    vm_per_load_b: int | None = None
    lgkm_per_load_a: int | None = None
    lgkm_per_load_b: int | None = None

    def build(self, derive: Callable[..., KernelGeometry]) -> KernelGeometry:
        """The geometry, by the kernel's own formulas where a derived field is missing."""
        given = {n: getattr(self, n) for n in _DERIVED if getattr(self, n) is not None}
        base = {n: getattr(self, n) for n in _SHAPE}
        if len(given) == len(_DERIVED):
            return KernelGeometry(**base, **given)
        return replace(derive(**base), **given)


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleBufferGeometrySpec(GeometrySpec):
    """The tile shape of a single-buffered kernel, whose four waves share a smaller block."""

    BM: int = 128
    BN: int = 128


def _check_name(name: str) -> None:
    said = f"target.name is {name!r}, which is not a known target"
    check_known(name, TARGETS, said, "target.name")

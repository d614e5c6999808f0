"""What a kernel occupies of a compute unit, and how many of its waves fit there."""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.machine.target import Target


@dataclass(frozen=True, slots=True)
class Resources:
    """What one wave and one workgroup occupy."""

    vgprs: int
    """VGPRs of a wave."""
    agprs: int
    """AGPRs of a wave."""
    sgprs: int
    """Scalar registers of a wave."""
    lds_bytes: int
    """LDS of a workgroup."""
    waves: int
    """Waves of a workgroup."""
    target: Target
    """The chip."""
    asked: int = 0
    """Registers that the kernel's descriptor asks for, where those are more."""

    @property
    def accum_offset(self) -> int:
        """Where AGPRs begin in the wave's unified register block."""
        return max(-(-self.vgprs // 4) * 4, 4)

    @property
    def registers(self) -> int:
        """VGPRs and AGPRs as the hardware allocates them."""
        total = self.accum_offset + self.agprs if self.agprs else self.vgprs
        granule = self.target.vgpr_granule.value
        return max(-(-total // granule) * granule, self.asked, granule)

    @property
    def workgroups(self) -> int:
        """How many workgroups a compute unit holds, by registers, LDS and a SIMD's own limit."""
        target = self.target
        simds = target.simds.value
        most = min(target.vgprs_per_simd_lane.value // self.registers, target.waves_per_simd.value)
        small = self.waves < simds  # several share what a larger one has for itself
        groups = most * simds // self.waves if small else most // -(-self.waves // simds)
        if self.lds_bytes:
            groups = min(groups, target.lds_bytes // self.lds_bytes)
        return max(groups, 1)

    @property
    def waves_per_simd(self) -> int:
        """How many waves a SIMD holds, of whole workgroups."""
        simds = self.target.simds.value
        if self.waves < simds:
            return -(-self.workgroups * self.waves // simds)
        return self.workgroups * -(-self.waves // simds)

    def __str__(self) -> str:
        return (
            f"{self.vgprs} VGPRs, {self.agprs} AGPRs, {self.sgprs} SGPRs, {self.lds_bytes} bytes "
            f"of LDS, {self.waves_per_simd} wave(s) per SIMD on {self.target.arch}"
        )

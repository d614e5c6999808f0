"""Trials on a GPU instead of the emulator: the same data, the same comparison, guards around it.

    OnGpu(device=0).runner(KernelImage(launch_record(kernel), {kernel.name: code}))

is what ``run_program`` and ``run_gemm`` take as ``runner``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeloom.checks import check_int
from pipeloom.device.hip import DeviceInfo, Hip
from pipeloom.device.host_arrays import launch_copied
from pipeloom.device.images import KernelImage
from pipeloom.device.prepared_kernel import PreparedKernel
from pipeloom.drive.runners import Array, Launched, Runner

GUARD = 1 << 16
"""Bytes of known content before and behind every array of a trial."""


@dataclass(frozen=True, slots=True)
class OnGpu:
    """Which device runs trials, and whether it may run what is not PROVED."""

    device: int = 0
    """Its number, as this process counts."""
    unproved: bool = False
    """Whether a kernel that is not PROVED may be launched."""

    def __post_init__(self) -> None:
        check_int("gpu", "device", self.device, 0)

    @property
    def gpu(self) -> DeviceInfo:
        """The device itself; ``DeviceError`` where there is none."""
        return Hip.open().gpu(self.device)

    def runner(self, image: KernelImage) -> Runner:
        """What launches one kernel, or those of one product.

        Args:
            image: The code objects and their record.
        """
        image.require_proved(self.unproved)
        kernel = PreparedKernel(Hip.open(), self.device, image)

        def run(arrays: Mapping[str, Array], scalars: Mapping[str, Any]) -> Launched:
            given = {name: array for name, array in arrays.items() if name in kernel.rules}
            numbers = {name: value for name, value in scalars.items() if name in kernel.scalars}
            try:
                spoilt = launch_copied(kernel, {**given, **numbers}, guard=GUARD)
                return Launched(sum(spoilt.values()))
            finally:
                kernel.close()

        return run

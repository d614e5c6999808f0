"""What HIP's calls return, by name, and what to do about it.

Numbers and names are those of hip_runtime_api.h (ROCm 6 to 10 have the same).
"""

from __future__ import annotations

from ..errors import ScheduleError

NAMES = {
    1: "hipErrorInvalidValue",
    2: "hipErrorOutOfMemory",
    3: "hipErrorNotInitialized",
    98: "hipErrorInvalidDeviceFunction",
    100: "hipErrorNoDevice",
    101: "hipErrorInvalidDevice",
    200: "hipErrorInvalidImage",
    201: "hipErrorInvalidContext",
    209: "hipErrorNoBinaryForGpu",
    301: "hipErrorFileNotFound",
    400: "hipErrorInvalidHandle",
    500: "hipErrorNotFound",
    600: "hipErrorNotReady",
    700: "hipErrorIllegalAddress",
    701: "hipErrorLaunchOutOfResources",
    719: "hipErrorLaunchFailure",
    900: "hipErrorStreamCaptureUnsupported",
    901: "hipErrorStreamCaptureInvalidated",
    906: "hipErrorStreamCaptureImplicit",
}
REMEDIES = {
    2: "free memory on the device, or take a smaller problem",
    100: "no GPU is visible: see rocminfo, HIP_VISIBLE_DEVICES, and the groups video and render",
    101: "pipeloom doctor lists the devices",
    200: "the file is no code object for AMD GPUs, or is damaged: write it anew",
    209: "the code object is for another chip: write it with --target of this GPU",
    301: "the file is not there",
    400: "the kernel, stream or event belongs to another device, or is gone",
    500: "the code object has no kernel of this name",
    700: "a kernel touched memory that is not its own; this process can no longer use the device: "
    "start it anew, and look with pipeloom run, which emulates the kernel",
    701: "the kernel asks for more threads, registers or LDS than a compute unit has",
    719: "a kernel failed on the device; look with pipeloom run, which emulates it",
    900: "memory and synchronisation have no place in a graph capture: prepare the kernel before",
    901: "an earlier call broke the capture: begin it anew",
    906: "the default stream waits for others, which breaks their capture: pass another stream",
}
LATE = (700, 719)
"""Come from a kernel that was launched before, whichever call tells."""


class DeviceError(ScheduleError):
    """No HIP, no device, a call that failed, or a launch that a kernel does not allow.

    Args:
        message: What is wrong, with the value.
        hint: What would be right.
        field: The argument that is meant, where there is one.
        code: What HIP returned; 0 where nothing was called.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, field: str | None = None, code: int = 0
    ) -> None:
        super().__init__(message, hint=hint, field=field)
        self.code = code


def failed_call(name: str, code: int, text: str, after: str = "") -> DeviceError:
    """What is raised for a call that returned ``code``; ``after`` says what ran before it."""
    named = NAMES.get(code, "an error that has no name here")
    said = f" ({text})" if text else ""
    return DeviceError(
        f"{name} returned {code}, {named}{said}{after}",
        hint=REMEDIES.get(code, "pipeloom doctor says what it finds of HIP and its devices"),
        field=name,
        code=code,
    )

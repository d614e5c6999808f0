"""HIP's calls through ctypes, with their types, and errors by name.

    hip = Hip.open()
    hip.call("hipSetDevice", 0)
    [gpu.arch for gpu in hip.gpus()]          # ["gfx950", "gfx950"]

Signatures and numbers are those of hip_runtime_api.h. Device properties are read from
``hipGetDevicePropertiesR0600``: the plain symbol fills an older struct with the name elsewhere
(ROCm/ROCm#2728). Errors 700 and 719 come from a kernel launched before; what was launched since the
last synchronisation that went well is named with them.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from .hip_errors import LATE, DeviceError, failed_call
from .hip_search import HipPlace, check_single, find_hip, mapped_libraries

TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3
"""hipMemcpyKind."""
NON_BLOCKING = 1
"""A stream that does not wait for the default one."""
_P, _I, _U, _Z = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_size_t
_OUT = ctypes.POINTER(_P)
_INT = ctypes.POINTER(_I)
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "hipInit": (_U,),
    "hipRuntimeGetVersion": (_INT,),
    "hipGetDeviceCount": (_INT,),
    "hipGetDevice": (_INT,),
    "hipSetDevice": (_I,),
    "hipDeviceGetAttribute": (_INT, _I, _I),
    "hipGetDevicePropertiesR0600": (_P, _I),
    "hipModuleLoadData": (_OUT, _P),
    "hipModuleUnload": (_P,),
    "hipModuleGetFunction": (_OUT, _P, ctypes.c_char_p),
    "hipFuncGetAttribute": (_INT, _I, _P),
    "hipModuleLaunchKernel": (_P, _U, _U, _U, _U, _U, _U, _U, _P, _OUT, _OUT),
    "hipMalloc": (_OUT, _Z),
    "hipFree": (_P,),
    "hipMemcpy": (_P, _P, _Z, _I),
    "hipMemcpyAsync": (_P, _P, _Z, _I, _P),
    "hipMemset": (_P, _I, _Z),
    "hipMemsetAsync": (_P, _I, _Z, _P),
    "hipStreamCreateWithFlags": (_OUT, _U),
    "hipStreamDestroy": (_P,),
    "hipStreamSynchronize": (_P,),
    "hipStreamBeginCapture": (_P, _I),
    "hipStreamEndCapture": (_P, _OUT),
    "hipGraphInstantiate": (_OUT, _P, _OUT, ctypes.c_char_p, _Z),
    "hipGraphLaunch": (_P, _P),
    "hipGraphExecDestroy": (_P,),
    "hipGraphDestroy": (_P,),
    "hipDeviceSynchronize": (),
    "hipEventCreate": (_OUT,),
    "hipEventDestroy": (_P,),
    "hipEventRecord": (_P, _P),
    "hipEventSynchronize": (_P,),
    "hipEventElapsedTime": (ctypes.POINTER(ctypes.c_float), _P, _P),
    "hipGetLastError": (),
}
"""Every call that is made, and what it takes; all return an error number."""
NEEDED = ("hipModuleLaunchKernel", "hipModuleLoadData", "hipGetDevicePropertiesR0600", "hipMalloc")
"""A library without these is no HIP of ROCm 6 or later."""
SYNCHRONISES = ("hipDeviceSynchronize", "hipFree")
_ARCH_AT, _PROPERTY_BYTES = 1160, 4096
"""gcnArchName in hipDeviceProp_tR0600 (1472 bytes; room for more)."""
_MEMORY_AT = 288
"""totalGlobalMem: behind the name (256), the UUID (16), the LUID (8) and its mask (4, padded)."""
_CUS, _CLOCK_KHZ, _LDS_BYTES, _WALL_KHZ, _XCCS = 63, 5, 74, 10017, 10018
"""hipDeviceAttribute_t: multiProcessorCount, clockRate, sharedMemPerBlock, wallClockRate, XCCs."""
REMEMBERED = 16
"""Launches that a late error may come from."""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A GPU as HIP shows it."""

    index: int
    """Its number, as this process counts (HIP_VISIBLE_DEVICES)."""
    arch: str
    """The chip, as code objects name it: gfx950."""
    name: str
    """What the driver calls it."""
    compute_units: int
    """How many it has."""
    clock_mhz: float
    """The highest clock; what it runs at is measured."""
    wall_clock_mhz: float
    """Of ``s_memrealtime``."""
    lds_bytes: int
    """Of a workgroup."""
    memory_bytes: int
    """In all."""
    xccs: int
    """Dies that workgroups are dealt to."""

    def __str__(self) -> str:
        size = f"{self.compute_units} CUs, {self.memory_bytes / 2**30:.0f} GiB"
        return f"{self.index}: {self.name or self.arch} ({self.arch}), {size}"


class Hip:
    """One HIP library: its calls, its devices, and what was launched of late."""

    def __init__(self, library: Any, place: HipPlace) -> None:
        lacks = [name for name in NEEDED if not hasattr(library, name)]
        if lacks:
            raise DeviceError(
                f"{place.path} has no {', '.join(lacks)}",
                hint="it is no HIP of ROCm 6 or later: install a later ROCm",
                field="hip",
            )
        self.library, self.place = library, place
        self.launched: deque[tuple[int, str]] = deque(maxlen=REMEMBERED)
        """(device, kernel) of launches that no synchronisation has seen end."""
        for name, types in SIGNATURES.items():
            function = getattr(library, name, None)
            if function is not None:
                function.argtypes, function.restype = types, _I
        library.hipGetErrorString.argtypes = [_I]
        library.hipGetErrorString.restype = ctypes.c_char_p
        self._gpus: tuple[DeviceInfo, ...] | None = None

    _opened: ClassVar[dict[str, Hip]] = {}

    @classmethod
    def open(cls) -> Hip:
        """The HIP of this process: found once, and the only one."""
        for known in cls._opened.values():
            check_single(mapped_libraries())
            return known
        place, library = find_hip()
        found = cls(library, place)
        found.call("hipInit", 0)
        cls._opened[place.path] = found
        return found

    def call(self, name: str, *arguments: Any) -> None:
        """Make a call; ``DeviceError`` with its name and the remedy where it fails."""
        function = getattr(self.library, name, None)
        if function is None:
            raise DeviceError(
                f"{self.place.path} has no {name}", hint="install a later ROCm", field=name
            )
        code = function(*arguments)
        if code:
            self.fail(name, code)
        if name in SYNCHRONISES:
            self.launched.clear()

    def fail(self, name: str, code: int) -> None:
        """Raise for a call that returned ``code``."""
        text = self.library.hipGetErrorString(code)
        after = ""
        if code in LATE and self.launched:
            names = dict.fromkeys(
                f"{kernel} on device {device}" for device, kernel in self.launched
            )
            *others, last = names
            after = f"; launched before it: {last}"
            after += f", or one of {', '.join(others)}" if others else ""
        raise failed_call(name, code, text.decode() if text else "", after)

    def number(self, name: str, *arguments: Any) -> int:
        """The whole number that a call writes to its first argument."""
        found = ctypes.c_int()
        self.call(name, ctypes.byref(found), *arguments)
        return found.value

    def handle(self, name: str, *arguments: Any) -> int:
        """The address or handle that a call writes to its first argument."""
        return self.handle_at(name, 0, *arguments)

    def handle_at(self, name: str, place: int, *arguments: Any) -> int:
        """The same of a call that writes it to another argument."""
        found = ctypes.c_void_p()
        self.call(name, *arguments[:place], ctypes.byref(found), *arguments[place:])
        return int(found.value or 0)

    @property
    def version(self) -> str:
        """HIP's, such as 7.1.25424."""
        number = self.number("hipRuntimeGetVersion")
        return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"

    def gpus(self) -> tuple[DeviceInfo, ...]:
        """The devices that this process sees; asked once."""
        if self._gpus is None:
            try:
                count = self.number("hipGetDeviceCount")
            except DeviceError as error:
                if error.code != 100:
                    raise
                count = 0
            self._gpus = tuple(self._gpu(index) for index in range(count))
        return self._gpus

    def gpu(self, index: int) -> DeviceInfo:
        """The device of that number."""
        found = self.gpus()
        if not found:
            raise DeviceError(
                f"{self.place.path} sees no GPU",
                hint="see rocminfo, HIP_VISIBLE_DEVICES, and the groups video and render",
                field="device",
                code=100,
            )
        if not 0 <= index < len(found):
            raise DeviceError(
                f"there is no device {index}",
                hint="there are " + "; ".join(map(str, found)),
                field="device",
            )
        return found[index]

    def _gpu(self, index: int) -> DeviceInfo:
        properties = ctypes.create_string_buffer(_PROPERTY_BYTES)
        self.call("hipGetDevicePropertiesR0600", properties, index)
        arch = properties.raw[_ARCH_AT:].split(b"\0", 1)[0].decode(errors="replace")

        def attribute(which: int) -> int:
            found = ctypes.c_int()
            asked = self.library.hipDeviceGetAttribute(ctypes.byref(found), which, index)
            return 0 if asked else found.value

        return DeviceInfo(
            index,
            arch.split(":", 1)[0],
            properties.raw[:256].split(b"\0", 1)[0].decode(errors="replace"),
            attribute(_CUS),
            attribute(_CLOCK_KHZ) / 1000,
            attribute(_WALL_KHZ) / 1000,
            attribute(_LDS_BYTES),
            int.from_bytes(properties.raw[_MEMORY_AT : _MEMORY_AT + 8], "little"),
            attribute(_XCCS),
        )

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Make a device the current one; whichever was before is again afterwards."""
        before = self.number("hipGetDevice")
        if before == device:
            yield
            return
        self.call("hipSetDevice", device)
        try:
            yield
        finally:
            self.library.hipSetDevice(before)

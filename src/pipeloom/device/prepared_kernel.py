"""A kernel loaded on a device, and launched: the part of a launch that is repeated.

    kernel = PreparedKernel(Hip.open(), 0, KernelImage.read("k.hsaco"))
    kernel(A=a, B=b, out=c)                    # on the current stream of PyTorch, or the default
    again = kernel.bind(A=a, B=b, out=c)       # the same arrays: again() costs two calls of HIP

Nothing is allocated and nothing waits, but for the first call of a shape, which makes its plan, and
the first of a stream that needs a workspace: so a launch can be captured in a graph.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, ClassVar

from .array_bytes import ArrayBytes
from .contracts import FORMAT
from .device_memory import Workspaces
from .hip import Hip
from .hip_errors import DeviceError
from .images import KernelImage
from .laid_arrays import ArrayRule
from .sequence import LaunchPlan, LaunchStep, operand_rules, planned, scalar_names
from .tensors import TensorView, has_negative_bit, view_of

_BUFFER, _SIZE, _END = 1, 2, 3
"""HIP_LAUNCH_PARAM_*: the arguments as one buffer."""
_RESIDUE = 15
"""Plans know addresses modulo 16 bytes, the widest access there is."""
MOST_PLANS = 512
IN_PLACE = "C"
"""What beta multiplies: each workgroup reads of it what it then stores, and no more."""


class Modules:
    """Code objects on the devices: loaded when first needed, and kept by device and content.

    They stay loaded as long as the process lives, as those of PyTorch and Triton do: a graph may
    hold their kernels.
    """

    _known: ClassVar[dict[int, tuple[Hip, Modules]]] = {}

    @classmethod
    def of(cls, hip: Hip) -> Modules:
        """Those of a HIP."""
        return cls._known.setdefault(id(hip), (hip, cls(hip)))[1]

    def __init__(self, hip: Hip) -> None:
        self._hip = hip
        self._modules: dict[tuple[int, bytes], int] = {}
        self._functions: dict[tuple[int, bytes, str], int] = {}

    def function(self, device: int, code: bytes, name: str) -> int:
        """A kernel's handle on a device."""
        known = self._functions.get((device, code, name))
        if known is not None:
            return known
        with self._hip.on(device):
            module = self._modules.get((device, code))
            if module is None:
                module = self._hip.handle("hipModuleLoadData", code)
                self._modules[device, code] = module
            found = self._hip.handle("hipModuleGetFunction", module, name.encode())
        self._functions[device, code, name] = found
        return found


class _Ready:
    """A step with its buffers: addresses are written to ``words``, then it is launched."""

    __slots__ = ("arguments", "extra", "function", "name", "pointers", "size", "words")

    def __init__(self, step: LaunchStep, function: int) -> None:
        self.name = step.kernel
        buffer = (ctypes.c_char * max(len(step.arguments), 8)).from_buffer_copy(
            step.arguments.ljust(8, b"\0")
        )
        self.size = ctypes.c_size_t(len(step.arguments))
        self.words = (ctypes.c_uint64 * (len(buffer) // 8)).from_buffer(buffer)
        self.extra = (ctypes.c_void_p * 5)(
            _BUFFER, ctypes.addressof(buffer), _SIZE, ctypes.addressof(self.size), _END
        )
        self.function = ctypes.c_void_p(function)
        self.pointers = tuple((one.offset // 8, one.array, one.more) for one in step.pointers)
        self.arguments = (*step.grid, *step.block, step.dynamic_lds)

    def fill(self, addresses: Mapping[str, int], between: int) -> None:
        """Write the addresses: of arrays by name, and of the workspace."""
        words = self.words
        for at, name, more in self.pointers:
            words[at] = (between if name is None else addresses[name]) + more


_Planned = tuple[LaunchPlan, tuple[_Ready, ...], Mapping[str, ArrayBytes]]
"""What is launched for arrays of some shapes, and which bytes each of them takes."""


class PreparedKernel:
    """A kernel, or those of one product, on one device.

    Args:
        hip: The HIP of this process.
        device: The number of the device.
        image: Its code objects, and how to launch them.
        workspaces: Where memory between kernels is kept; its own unless given.
    """

    def __init__(
        self, hip: Hip, device: int, image: KernelImage, workspaces: Workspaces | None = None
    ) -> None:
        self.hip, self.device, self.image = hip, device, image
        record = self.record = image.record
        self.rules: Mapping[str, ArrayRule] = operand_rules(record)
        self.scalars = scalar_names(record)
        own = record.get("format") == FORMAT
        self._outputs = tuple(name for name, rule in self.rules.items() if own and rule.output)
        self._codes = image.codes
        self._modules = Modules.of(hip)
        self._workspaces = workspaces or Workspaces(hip)
        self._plans: dict[Any, _Planned] = {}
        self._lock = Lock()
        check_chip(hip, device, str(record["target"]), str(record["kernel"]))
        for name, code in image.codes.items():  # a wrong name or image is told now, not at a launch
            self._modules.function(device, code, name)

    @property
    def name(self) -> str:
        """The kernel's symbol; a product's own, where copies and sums go with it."""
        return str(self.record["kernel"])

    def __repr__(self) -> str:
        return f"<PreparedKernel {self.name} on device {self.device}: {len(self._plans)} shapes>"

    def __call__(self, *, stream: Any = None, workspace: Any = None, **given: Any) -> None:
        """Launch on ``stream``, after which it goes on its own; every array lies on the device.

        Args:
            stream: A handle, or an object that has one; PyTorch's current one where arrays are
                its tensors, else the default stream.
            workspace: Memory on the device for what lies between kernels, where there are several;
                the kernel has its own otherwise.
            **given: Arrays and numbers by the names of the record.
        """
        key, addresses, queue = self._key(given, stream)
        plan, ready, taken = self._plans.get(key) or self._plan(key, given)
        self._check_alone(taken, addresses)
        between = 0
        if plan.workspace_bytes:
            between = self._between(plan.workspace_bytes, queue, workspace)
        with self._lock:  # buffers are written, then read by HIP before the call returns
            for one in ready:
                one.fill(addresses, between)
            self._launch(ready, queue)

    def bind(
        self, *, stream: Any = None, workspace: Any = None, **given: Any
    ) -> Callable[[], None]:
        """A function that launches on the same arrays and stream again, without looking at them.

        Args:
            stream: As for a call.
            workspace: As for a call.
            **given: As for a call; the arrays must stay where they are.
        """
        key, addresses, queue = self._key(given, stream)
        plan, _, taken = self._plans.get(key) or self._plan(key, given)
        self._check_alone(taken, addresses)
        between = self._between(plan.workspace_bytes, queue, workspace)
        ready = self._ready(plan)
        for one in ready:
            one.fill(addresses, between)
        keep = (given, workspace)

        def again() -> None:
            self._launch(ready, queue)
            assert keep

        return again

    def _launch(self, ready: tuple[_Ready, ...], queue: int) -> None:
        hip, device, on = self.hip, self.device, queue or None
        launch = hip.library.hipModuleLaunchKernel
        before = _current(hip)
        if before != device:
            hip.call("hipSetDevice", device)
        try:
            for one in ready:
                hip.launched.append((device, one.name))
                code = launch(one.function, *one.arguments, on, None, one.extra)
                if code:
                    hip.fail("hipModuleLaunchKernel", code)
        finally:
            if before != device:
                hip.library.hipSetDevice(before)

    def workspace_bytes(self, **given: Any) -> int:
        """What a call with such arrays needs between its kernels.

        Args:
            **given: As for a call.
        """
        key, _, _ = self._key(given, 0)
        plan, _, _ = self._plans.get(key) or self._plan(key, given)
        return plan.workspace_bytes

    def close(self) -> None:
        """Free workspaces; kernels must be done."""
        self._plans.clear()
        self._workspaces.close()

    def _key(self, given: Mapping[str, Any], stream: Any) -> tuple[Any, dict[str, int], int]:
        """What a plan depends on, the addresses, and the stream."""
        key: list[Any] = []
        addresses: dict[str, int] = {}
        torch = False
        for name, value in given.items():
            if name not in self.rules:
                number = value if type(value) is float else self._number(name, value)
                key.append((name, number.hex()))  # 0.0 and -0.0 are equal, and not the same
                continue
            view = getattr(value, "view", None)
            if type(view) is TensorView:
                address, shape = view.address, view.layout
            elif hasattr(value, "data_ptr"):
                torch = True
                address = value.data_ptr()
                sign = has_negative_bit(value)
                shape = value.shape, value.stride(), value.dtype, value.device, sign
            else:
                view = view_of(value, name)
                address, shape = view.address, view.layout
            addresses[name] = address
            key.append((name, shape, address & _RESIDUE if address else -1))
        return tuple(key), addresses, stream_handle(stream, self.device, torch)

    def _check_alone(self, taken: Mapping[str, ArrayBytes], addresses: Mapping[str, int]) -> None:
        """An output has no memory of another array, but for what beta multiplies: blocks are read
        after others end. That has the same places, or none of the output's."""
        for output in self._outputs:
            own, at = taken[output], addresses[output]
            for name, address in addresses.items():
                other = taken[name]
                same = name == IN_PLACE and address == at and other == own
                if name == output or same or not own.meets(other, address - at):
                    continue
                raise DeviceError(
                    f"{output} lies where {name} does"
                    + ("" if address == at else f", {abs(address - at)} bytes further"),
                    hint="pass an array of its own: other workgroups still read that one",
                    field=output,
                )

    def _number(self, name: str, value: Any) -> float:
        """A scalar by its value: the object may be changed in place until the next launch."""
        if name in self.scalars and not isinstance(value, bool | str):
            try:
                return float(value)
            except (TypeError, ValueError, RuntimeError) as error:
                raise self._unknown(name, value) from error
        raise self._unknown(name, value)

    def _plan(self, key: Any, given: Mapping[str, Any]) -> _Planned:
        views, numbers = {}, {}
        for name, value in given.items():
            if name in self.rules:
                views[name] = view_of(value, name)
                self._check_device(name, views[name])
            else:
                numbers[name] = value
        plan = planned(self.record, views, numbers)
        taken = {name: ArrayBytes.of(view) for name, view in views.items()}
        found = plan, self._ready(plan), taken
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        self._plans[key] = found
        return found

    def _ready(self, plan: LaunchPlan) -> tuple[_Ready, ...]:
        return tuple(
            _Ready(step, self._modules.function(self.device, self._codes[step.kernel], step.kernel))
            for step in plan.steps
        )

    def _check_device(self, name: str, view: TensorView) -> None:
        if view.on_host:
            raise DeviceError(
                f"{name} lies in the host's memory",
                hint="pass arrays on the device to a prepared kernel; pl.launch copies others",
                field=name,
            )
        if view.device != self.device:
            raise DeviceError(
                f"{name} lies on device {view.device}, and the kernel was prepared for "
                f"{self.device}",
                hint=f"move it, or prepare the kernel for device {view.device}",
                field=name,
            )

    def _unknown(self, name: str, value: Any) -> DeviceError:
        known = (*self.rules, *self.scalars)
        return DeviceError(
            f"{self.name} takes no {name}"
            if name not in known
            else f"{name} is {type(value).__name__}, which is no number",
            hint=f"it takes {', '.join(known)}",
            field=name,
        )

    def _between(self, size: int, queue: int, workspace: Any) -> int:
        if not size:
            return 0
        if workspace is None:
            with self.hip.on(self.device):
                return self._workspaces.get(self.device, queue, size)
        view = view_of(workspace, "workspace")
        self._check_device("workspace", view)
        if view.bytes_to_end < size or view.address % 256:
            raise DeviceError(
                f"the workspace has {view.bytes_to_end} bytes at {view.address:#x}",
                hint=f"{self.name} needs {size}, at a multiple of 256",
                field="workspace",
            )
        return view.address


def check_chip(hip: Hip, device: int, target: str, kernel: str) -> None:
    """Refuse a kernel of another chip."""
    gpu = hip.gpu(device)
    if gpu.arch != target:
        others = [one.index for one in hip.gpus() if one.arch == target]
        raise DeviceError(
            f"{kernel} is for {target}, and device {device} is {gpu.arch}",
            hint=f"use device {others[0]}" if others else f"write it with --target {gpu.arch}",
            field="device",
            code=209,
        )


def _current(hip: Hip) -> int:
    found = ctypes.c_int()
    code = hip.library.hipGetDevice(ctypes.byref(found))
    if code:
        hip.fail("hipGetDevice", code)
    return found.value


def stream_handle(given: Any, device: int, torch: bool) -> int:
    """The handle of a stream; PyTorch's current one unless given."""
    if given is None:
        module = sys.modules.get("torch") if torch else None
        if module is None or not module.cuda.is_available():
            return 0
        return int(module.cuda.current_stream(device).cuda_stream)
    for name in ("cuda_stream", "ptr", "handle"):
        given = getattr(given, name, given)
    if not isinstance(given, int):
        raise DeviceError(
            f"stream is a {type(given).__name__}",
            hint="pass a handle of HIP's, or a stream of PyTorch's",
            field="stream",
        )
    return given

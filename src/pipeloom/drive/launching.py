"""Launch a kernel on the GPU: whatever describes one, with arrays of the host or of the device.

    import pipeloom as pl
    pl.launch("k.hsaco", A=a, B=b, out=c)             # what emit or gemm wrote, with its record
    out = pl.launch(pl.emit("ping_pong"), A=a, B=b)["out"]
    kernel = pl.prepare("k.hsaco")                    # once; then kernel(A=a, B=b, out=c)

Sizes, strides, the grid and the arguments follow from the arrays and from the launch record. Only
what is PROVED is launched, unless ``unproved`` says otherwise: a wrong kernel may hang a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from os import PathLike, fspath
from typing import Any, TypeGuard

import numpy as np

from pipeloom.device.contracts import FORMAT
from pipeloom.device.fixed_launches import FIXED
from pipeloom.device.hip import Hip
from pipeloom.device.host_arrays import check_guards, launch_copied
from pipeloom.device.images import KernelImage, image_files
from pipeloom.device.laid_arrays import output_shapes
from pipeloom.device.prepared_kernel import PreparedKernel
from pipeloom.device.tensors import view_of
from pipeloom.device.torch_op import TorchOp
from pipeloom.drive.gemm import Gemm
from pipeloom.drive.kernel_files import open_kernel
from pipeloom.drive.programs import Source, emit
from pipeloom.files import read_file
from pipeloom.judge.emulate import Linked
from pipeloom.machine_code.launch_arguments import Padding, Raw
from pipeloom.machine_code.launch_buffers import Buffer
from pipeloom.machine_code.launch_elements import NUMPY_TYPES, bits_of
from pipeloom.machine_code.launch_file import LaunchSpec, load_launch
from pipeloom.write import EmittedKernel, assemble, launch_record

Launched = Source | EmittedKernel | Gemm | KernelImage
"""What can be launched; also anything whose ``image`` is a ``KernelImage``, as ``pl.gemm``'s."""
MOST_KEPT = 32

_kept: dict[tuple[Any, ...], PreparedKernel] = {}


def launch(
    kernel: Launched,
    *,
    device: int | None = None,
    stream: Any = None,
    unproved: bool = False,
    how: LaunchSpec | str | PathLike[str] | None = None,
    guard: int = 0,
    **tensors: Any,
) -> dict[str, Any]:
    """Launch on a GPU, through HIP; the outputs by name.

    Arrays of the host are copied there and back, and the call waits; with arrays of the device it
    returns at once, as a launch does. Outputs that are left out are new NumPy arrays, of codes
    where NumPy lacks the type.

    Args:
        kernel: What ``emit`` or ``gemm`` returned, a code object with its record beside it
            (``k.hsaco``), or anything that ``emit`` takes.
        device: The device's number; that of the arrays unless given, else the current one.
        stream: A handle, or an object that has one; PyTorch's current one for its tensors, else the
            default stream.
        unproved: Whether a kernel that is not PROVED may be launched.
        how: For kernels that others wrote: a launch file, or what it holds. Buffers that are not
            given are filled as it says.
        guard: Bytes of known content around arrays of the host, which are checked afterwards.
        **tensors: Arrays and numbers by the names of the record: NumPy, PyTorch, anything with
            DLPack or ``__cuda_array_interface__``.
    """
    hip = Hip.open()
    where = _device_of(tensors) if device is None else device
    where = hip.number("hipGetDevice") if where is None else where
    ready = _prepared(hip, where, kernel, unproved, how)
    given = {**_filled(ready, how, tensors), **tensors}
    outputs = _outputs(ready, given)
    check_guards(ready.name, launch_copied(ready, {**given, **outputs}, stream, guard))
    return {
        name: array
        for name, array in {**given, **outputs}.items()
        if name in ready.rules and ready.rules[name].output
    }


def prepare(
    kernel: Launched,
    *,
    device: int = 0,
    unproved: bool = False,
    how: LaunchSpec | str | PathLike[str] | None = None,
) -> PreparedKernel:
    """A kernel loaded on a device, to be launched often: ``kernel(A=a, B=b, out=c)``.

    Args:
        kernel: As for ``launch``.
        device: The device's number.
        unproved: Whether a kernel that is not PROVED may be launched.
        how: As for ``launch``.
    """
    return _prepared(Hip.open(), device, kernel, unproved, how)


def torch_op(kernel: Launched, name: str | None = None, *, unproved: bool = False) -> TorchOp:
    """The kernel as an op of PyTorch: ``torch.ops.pipeloom.NAME``.

    It has an implementation for shapes alone, so that ``torch.compile`` keeps it as one opaque op,
    takes its outputs and workspace from PyTorch, and runs on the current stream. A plain product
    has a derivative.

    Args:
        kernel: As for ``launch``.
        name: The op's name, taken once in a process; the kernel's symbol unless given.
        unproved: Whether a kernel that is not PROVED may be launched.
    """
    image = image_of(kernel)
    image.require_proved(unproved)

    @cache
    def loaded(device: int) -> PreparedKernel:
        return PreparedKernel(Hip.open(), device, image)

    name = name or str(image.record["kernel"])
    return TorchOp(name, image.record, lambda device, _: loaded(device))


def image_of(kernel: Launched, how: LaunchSpec | None = None) -> KernelImage:
    """Code objects and the record of whatever describes a kernel; nothing is launched."""
    own = getattr(kernel, "image", None)
    if isinstance(own, KernelImage):
        return own
    if isinstance(kernel, KernelImage):
        return kernel
    if how is not None:
        return _fixed_image(kernel, how)
    if isinstance(kernel, Gemm):
        return KernelImage(kernel.contract(), {k.name: assemble(k).data for k in kernel.kernels})
    if _is_code(kernel):
        return KernelImage.read(fspath(kernel))
    emitted = kernel if isinstance(kernel, EmittedKernel) else emit(kernel)
    return KernelImage(launch_record(emitted), {emitted.name: assemble(emitted).data})


def _is_code(kernel: object) -> TypeGuard[str | PathLike[str]]:
    return isinstance(kernel, str | PathLike) and fspath(kernel).endswith((".hsaco", ".co"))


def _prepared(
    hip: Hip,
    device: int,
    kernel: Launched,
    unproved: bool,
    how: LaunchSpec | str | PathLike[str] | None,
) -> PreparedKernel:
    spec = how if how is None or isinstance(how, LaunchSpec) else load_launch(how)
    key = _key(kernel, device, spec)
    ready = _kept.get(key) if key is not None else None
    if ready is None or ready.hip is not hip:
        ready = PreparedKernel(hip, device, image_of(kernel, spec))
        if key is not None:
            if len(_kept) >= MOST_KEPT:
                _kept.pop(next(iter(_kept)))
            _kept[key] = ready
    ready.image.require_proved(unproved)
    return ready


def _key(kernel: Launched, device: int, how: LaunchSpec | None) -> tuple[Any, ...] | None:
    """What a prepared kernel is kept under; None for what would be made anew anyway."""
    if isinstance(kernel, EmittedKernel):
        return device, kernel.name, kernel.text
    if _is_code(kernel):
        files = [file for file in image_files(fspath(kernel)) if file.is_file()]
        return device, how, *((str(file.absolute()), read_file(file)) for file in files)
    return None


def _device_of(tensors: Mapping[str, Any]) -> int | None:
    """The device of the first array that lies on one."""
    for name, value in tensors.items():
        if hasattr(value, "__cuda_array_interface__") or hasattr(value, "__dlpack__"):
            view = view_of(value, name)
            if not view.on_host:
                return view.device
    return None


def _filled(
    ready: PreparedKernel,
    how: LaunchSpec | str | PathLike[str] | None,
    tensors: Mapping[str, Any],
) -> dict[str, Any]:
    """Buffers of a launch file that are not given."""
    if how is None:
        return {}
    spec = how if isinstance(how, LaunchSpec) else load_launch(how)
    if not ready.rules:
        return {}
    return {
        name: one.array if isinstance(one, Linked) else one
        for name, one in spec.contents().items()
        if name not in tensors
    }


def _outputs(ready: PreparedKernel, given: Mapping[str, Any]) -> dict[str, Any]:
    """New arrays for outputs that are left out, where the others say how large they are."""
    lacking = [r for name, r in ready.rules.items() if r.output and name not in given]
    if not lacking or ready.record.get("format") != FORMAT:
        return {}
    inputs = [name for name, rule in ready.rules.items() if not rule.output]
    if not all(name in given for name in inputs):
        return {}
    shapes = {name: view_of(given[name], name).shape for name in inputs}
    found = output_shapes(ready.rules, shapes, bool(ready.record["batched"]))
    return {
        one.name: np.zeros(found[one.name], NUMPY_TYPES.get(one.dtype, f"u{max(one.bits // 8, 1)}"))
        for one in lacking
    }


def _fixed_image(kernel: Launched, how: LaunchSpec) -> KernelImage:
    """A kernel that others wrote, as its launch file says."""
    file = open_kernel(kernel, how.kernel)  # type: ignore[arg-type]
    how.arguments()  # what is wrong with it is told before anything is loaded
    own = how.buffers()
    into: dict[str, tuple[str, int]] = {}
    arguments, links = [], {}
    for one in how.args:
        match one:
            case Buffer():
                name, byte = (one.name, 0) if one.same_as is None else into[one.same_as]
                into[one.name] = name, byte + one.byte
                held = own[name]
                arguments.append(
                    {
                        "name": name,
                        "offset": one.offset,
                        "size": 8,
                        "kind": "pointer" if one.offset is not None else "memory",
                        "byte": byte + one.byte,
                        "dtype": "fp16" if held.element == "f16" else held.element,
                        "bits": bits_of(held.element),
                        "shape": list(held.whole_shape()),
                    }
                )
                if one.pointers:
                    links[name] = [
                        [at, *(into[link.to] if link.to is not None else (None, 0)), link.byte]
                        for at, link in one.links()
                    ]
            case Padding():
                pass
            case _:
                data = one.hex if isinstance(one, Raw) else one.number().tobytes().hex()
                arguments.append(
                    {
                        "name": one.name,
                        "offset": one.offset,
                        "size": one.size,
                        "kind": "value",
                        "hex": data,
                    }
                )
    record = {
        "format": FIXED,
        "kernel": how.kernel,
        "target": file.kernel.arch,
        "verdict": None,
        "grid": [*how.grid, *[1] * (3 - len(how.grid))],
        "block": [*how.block, *[1] * (3 - len(how.block))],
        "dynamic_lds": how.more_lds(),
        "arguments": arguments,
        "links": links,
    }
    return KernelImage(record, {how.kernel: file.data})

"""A launch file to be filled in, from what a code object's metadata says of its arguments."""

from __future__ import annotations

from pipeloom.errors import ConfigError
from pipeloom.judge.emulate import CodeKernel, CodeObject, EmulateError, KernelArgument
from pipeloom.judge.emulate.decode import decode_kernel
from pipeloom.judge.emulate.loader import MOST_KERNARG
from pipeloom.machine_code.launch_arguments import LaunchArgument, Padding, Raw, Scalar
from pipeloom.machine_code.launch_buffers import Buffer
from pipeloom.machine_code.launch_file import LaunchSpec

_VALUE_GUESS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}


def template(code: CodeObject | CodeKernel, kernel: str | None = None) -> LaunchSpec:
    """A launch of one workgroup, with shapes and values left open.

    Padding (arguments so called) is kept; a kernel whose metadata lists no arguments gets its whole
    kernarg segment as bytes. ``dynamic_lds`` is left open where the code uses LDS and its metadata
    has none.
    """
    found = code if isinstance(code, CodeKernel) else code.kernel(kernel)
    listed = sorted(found.explicit_arguments, key=lambda argument: argument.offset)
    args: list[LaunchArgument] = []
    for argument in listed:
        known = _known(argument)
        last = args[-1] if args else None
        joins = isinstance(last, Padding) and last.offset + last.size == argument.offset
        if isinstance(known, Padding) and isinstance(last, Padding) and joins:
            known = Padding(last.offset, last.size + known.size)
            args.pop()
        args.append(known)
    if not 0 <= found.kernarg_size <= MOST_KERNARG:
        raise ConfigError(
            f"kernel {found.name} has a kernarg segment of {found.kernarg_size} bytes",
            hint=f"the code object is damaged: the limit is {MOST_KERNARG}",
        )
    if not listed and found.kernarg_size:
        args = [Raw("kernarg", 0, bytes(found.kernarg_size).hex())]
    said = found.metadata
    block = said.required_block or (said.max_work_items or 64, 1, 1)
    open_lds = not found.group_segment_bytes and _uses_lds(found)
    return LaunchSpec(found.name, (1, 1, 1), block, tuple(args), None if open_lds else 0)


def _uses_lds(kernel: CodeKernel) -> bool:
    try:
        instructions = decode_kernel(kernel.code)
    except EmulateError:
        return False
    return any(
        one.name.startswith(("ds_read", "ds_write")) or one.fields.get("lds")
        for one in instructions
    )


def _known(argument: KernelArgument) -> LaunchArgument:
    name = argument.name or f"arg_{argument.offset}"
    if argument.is_pointer:
        return Buffer(name, argument.offset)
    if argument.is_padding:
        return Padding(argument.offset, argument.size)
    if argument.size in _VALUE_GUESS:
        return Scalar(name, argument.offset, _VALUE_GUESS[argument.size])
    return Raw(name, argument.offset, bytes(argument.size).hex())

"""Load an AMDGPU code object: the ELF, each kernel's descriptor and its argument layout.

    code = load_code_object("k.hsaco")
    kernel = code.kernel("gemm")
    kernel.group_segment_bytes, kernel.arguments, len(kernel.code)

The layouts are those of LLVM's AMDGPUUsage ("Code Object V4/V5", "Kernel Descriptor").
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from pipeloom.files import read_file, reading
from pipeloom.judge.emulate.metadata import MetadataValue, parse_metadata
from pipeloom.judge.emulate.traps import CodeObjectError
from pipeloom.machine.cdna import PROCESSORS
from pipeloom.machine.chips import target_for
from pipeloom.machine.elf import ElfSection, read_sections, text_at
from pipeloom.machine.target import Target
from pipeloom.printable import is_printable

_EM_AMDGPU = 224
_SHT_SYMTAB = 2
_SHT_NOTE = 7
_SHT_DYNSYM = 11
_NT_AMDGPU_METADATA = 32
MOST_KERNARG = 1 << 16
"""Far more than runtimes pass (HIP: 4 KiB); a damaged size must not ask for gigabytes."""
MOST_NAMES, MOST_CODE, MOST_KERNELS = 64 << 20, 512 << 20, 20_000
"""Bytes of all symbols' names and of all kernels' code, which may overlap; and kernels."""
_MACHINE_NAMES = {known.elf_machine: name for name, known in PROCESSORS.items()}


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """One explicit or hidden argument: where it lies in the kernarg segment."""

    offset: int
    """Where it lies in the kernarg segment, in bytes."""
    size: int
    """Its size in bytes."""
    value_kind: str
    """What it is, as the metadata say: ``global_buffer``, ``by_value``, ``hidden_...``."""
    name: str = ""
    """Its name, where the metadata have it."""

    @property
    def is_hidden(self) -> bool:
        """Whether the launch fills it in by itself."""
        return self.value_kind.startswith("hidden_")

    @property
    def is_padding(self) -> bool:
        """Space between arguments that the metadata lists as one, under a name like ``_pad3``."""
        return self.name.strip("_").lower().startswith("pad")

    @property
    def is_pointer(self) -> bool:
        """Whether it is an address."""
        return self.value_kind in ("global_buffer", "dynamic_shared_pointer")


@dataclass(frozen=True, slots=True)
class KernelMetadata:
    """What the metadata note says of a kernel, beside its arguments; None where it is silent.

    HIP launches by this note, the hardware by the descriptor: ``limits`` compares the two.
    """

    kernarg_bytes: int | None = None
    """Bytes of the kernarg segment."""
    group_segment_bytes: int | None = None
    """Bytes of LDS."""
    private_segment_bytes: int | None = None
    """Bytes of scratch per work-item."""
    wavefront_size: int | None = None
    """Lanes of a wave."""
    sgprs: int | None = None
    """Scalar registers."""
    vgprs: int | None = None
    """VGPRs and AGPRs together."""
    agprs: int | None = None
    """AGPRs."""
    max_work_items: int | None = None
    """The largest workgroup."""
    required_block: tuple[int, int, int] | None = None
    """The only workgroup that it may be launched with."""


@dataclass(frozen=True, slots=True)
class CodeKernel:
    """A kernel's code, its descriptor, and what its metadata says of it."""

    name: str
    """The kernel's symbol."""
    arch: str
    """The chip it is for."""
    code: bytes
    """Its machine code."""
    group_segment_bytes: int
    """Bytes of LDS, by the descriptor."""
    private_segment_bytes: int
    """Bytes of scratch per work-item, by the descriptor."""
    kernarg_bytes: int
    """Bytes of the kernarg segment, by the descriptor."""
    rsrc1: int
    """The descriptor's ``compute_pgm_rsrc1``: registers, rounding modes."""
    rsrc2: int
    """The descriptor's ``compute_pgm_rsrc2``: which values arrive in registers."""
    rsrc3: int
    """The descriptor's ``compute_pgm_rsrc3``: where AGPRs begin."""
    properties: int
    """The descriptor's kernel code properties."""
    preload: int
    """Which dwords of the kernarg segment arrive in SGPRs."""
    arguments: tuple[KernelArgument, ...]
    """The arguments, explicit and hidden."""
    uses_private_segment: bool
    """Whether it uses scratch."""
    metadata: KernelMetadata = KernelMetadata()
    """What the metadata note says, beside the arguments."""
    entry: int = 0
    """Address of its first instruction in the code object, as debug information has it."""
    chip: Target | None = None
    """The chip that runs it, where that is not the processor that it is encoded for."""

    def __repr__(self) -> str:
        return f"<CodeKernel {self.name} for {self.arch}: {len(self.code)} bytes>"

    @property
    def target(self) -> Target:
        """The chip that runs it: its LDS, its registers and its wait states."""
        return self.chip or target_for(self.arch)

    @property
    def kernarg_size(self) -> int:
        """Bytes of the kernarg segment; 0 in the descriptor leaves it to the metadata."""
        return self.kernarg_bytes or self.metadata.kernarg_bytes or 0

    @property
    def preload_dwords(self) -> int:
        """How many dwords of the kernarg segment arrive in SGPRs."""
        return self.preload & 0x7F

    @property
    def preload_offset(self) -> int:
        """First preloaded dword of the kernarg segment."""
        return self.preload >> 7

    @property
    def explicit_arguments(self) -> tuple[KernelArgument, ...]:
        """Those that a caller passes."""
        return tuple(a for a in self.arguments if not a.is_hidden)


@dataclass(frozen=True, slots=True)
class CodeObject:
    """The kernels of one code object, all for one architecture."""

    arch: str
    """The chip that its kernels are for."""
    kernels: Mapping[str, CodeKernel]
    """The kernels by name."""

    def kernel(self, name: str | None = None) -> CodeKernel:
        """The named kernel; without a name, the only one there is.

        Args:
            name: The kernel's symbol.
        """
        if name is None:
            if len(self.kernels) == 1:
                return next(iter(self.kernels.values()))
            raise CodeObjectError(
                f"the code object holds {len(self.kernels)} kernels", hint=self._listing()
            )
        if name not in self.kernels:
            raise CodeObjectError(f"the code object holds no kernel {name!r}", hint=self._listing())
        return self.kernels[name]

    def _listing(self) -> str:
        return "name one of: " + (", ".join(sorted(self.kernels)) or "(none)")


_Described: TypeAlias = tuple[tuple[KernelArgument, ...], KernelMetadata]


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    value: int
    size: int
    section: int


def load_code_object(source: bytes | str | os.PathLike[str]) -> CodeObject:
    """Read a linked AMDGPU code object from bytes or from a file.

    Args:
        source: The bytes, or the file's path.
    """
    if isinstance(source, bytes):
        elf = source
    else:
        with reading(os.fspath(source), error=CodeObjectError):
            elf = read_file(source)
    if elf[:4] != b"\x7fELF":
        raise CodeObjectError(
            f"not an ELF file: it starts with {elf[:4].hex(' ') or 'nothing'}",
            hint="pass the linked code object (k.hsaco), not assembly or a bundle",
        )
    try:
        return _load(elf)
    except (struct.error, IndexError, ValueError) as error:
        raise CodeObjectError(f"the ELF file is cut short or malformed: {error}") from error


def _load(elf: bytes) -> CodeObject:
    if elf[4:6] != b"\x02\x01":
        raise CodeObjectError("not a 64-bit little-endian ELF file")
    machine = struct.unpack_from("<H", elf, 18)[0]
    if machine != _EM_AMDGPU:
        raise CodeObjectError(f"ELF machine {machine} is not AMDGPU ({_EM_AMDGPU})")
    flags = struct.unpack_from("<I", elf, 48)[0]
    arch = _MACHINE_NAMES.get(flags & 0xFF)
    if arch is None:
        raise CodeObjectError(
            f"the code object is for machine {flags & 0xFF:#x}, which the emulator does not model",
            hint="assemble for " + " or ".join(sorted(_MACHINE_NAMES.values())),
        )
    sections = read_sections(elf)
    symbols = _symbols(sections)
    described = _described(sections)
    functions = {symbol.name: symbol for symbol in symbols}
    kernels: dict[str, CodeKernel] = {}
    size = 0
    for symbol in symbols:
        if symbol.name.endswith(".kd"):
            kernel = _kernel(symbol, functions, sections, arch, described)
            kernels[kernel.name] = kernel
            size += len(kernel.code)
            if size > MOST_CODE or len(kernels) > MOST_KERNELS:
                raise CodeObjectError(
                    f"its kernels have more than {MOST_CODE} bytes, or are more than {MOST_KERNELS}"
                )
    for kernel in kernels.values():
        for name in (kernel.name, *(argument.name for argument in kernel.arguments)):
            if not is_printable(name):
                raise CodeObjectError(f"the name {name!a} holds a control character")
    if not kernels:
        raise CodeObjectError(
            "the code object holds no kernel descriptor (no symbol ends in .kd)",
            hint="link the object with ld.lld -shared and declare .amdhsa_kernel",
        )
    return CodeObject(arch, MappingProxyType(kernels))


def _symbols(sections: list[ElfSection]) -> list[_Symbol]:
    found: dict[str, _Symbol] = {}
    total = 0
    for table in sections:
        if table.kind not in (_SHT_SYMTAB, _SHT_DYNSYM):
            continue
        names = sections[table.link].data
        for at in range(0, len(table.data) - 23, 24):
            name_at, _, _, section, value, size = struct.unpack_from("<IBBHQQ", table.data, at)
            name = text_at(names, name_at)
            total += len(name)
            if total > MOST_NAMES:
                raise CodeObjectError(f"the names of its symbols have more than {MOST_NAMES} bytes")
            if name:
                found.setdefault(name, _Symbol(name, value, size, section))
    return list(found.values())


def _bytes_at(sections: list[ElfSection], address: int, size: int) -> bytes:
    for section in sections:
        if section.address and section.address <= address < section.address + section.size:
            start = address - section.address
            return section.data[start : start + size]
    raise CodeObjectError(f"address {address:#x} lies in no section of the code object")


def _kernel(
    symbol: _Symbol,
    functions: Mapping[str, _Symbol],
    sections: list[ElfSection],
    arch: str,
    described: Mapping[str, _Described],
) -> CodeKernel:
    name = symbol.name.removesuffix(".kd")
    descriptor = _bytes_at(sections, symbol.value, 64)
    if len(descriptor) < 64:
        raise CodeObjectError(f"the descriptor of kernel {name} is cut short")
    group, private, kernarg = struct.unpack_from("<III", descriptor, 0)
    entry = symbol.value + struct.unpack_from("<q", descriptor, 16)[0]
    rsrc3, rsrc1, rsrc2, properties, preload = struct.unpack_from("<IIIHH", descriptor, 44)
    arguments, metadata = described.get(name, ((), KernelMetadata()))
    function = functions.get(name)
    if function is not None and function.value == entry and function.size:
        size = function.size
    else:
        size = _rest_of_section(sections, entry)
    return CodeKernel(
        name=name,
        arch=arch,
        code=_bytes_at(sections, entry, size),
        group_segment_bytes=group,
        private_segment_bytes=private,
        kernarg_bytes=kernarg,
        rsrc1=rsrc1,
        rsrc2=rsrc2,
        rsrc3=rsrc3,
        properties=properties,
        preload=preload,
        arguments=arguments,
        uses_private_segment=bool(rsrc2 & 1),
        metadata=metadata,
        entry=entry,
    )


def _rest_of_section(sections: list[ElfSection], address: int) -> int:
    for section in sections:
        if section.address and section.address <= address < section.address + section.size:
            return section.address + section.size - address
    raise CodeObjectError(f"the kernel's entry {address:#x} lies in no section")


def _described(sections: list[ElfSection]) -> dict[str, _Described]:
    document = _metadata(sections)
    result: dict[str, _Described] = {}
    kernels = document.get("amdhsa.kernels")
    if not isinstance(kernels, list):
        return result
    for kernel in kernels:
        if not isinstance(kernel, dict):
            continue
        name = str(kernel.get(".symbol", "")).removesuffix(".kd")
        listed = kernel.get(".args")
        entries = listed if isinstance(listed, list) else []
        arguments = tuple(_argument(entry) for entry in entries if isinstance(entry, dict))
        result[name] = arguments, _kernel_metadata(kernel)
    return result


def _kernel_metadata(entry: Mapping[str, MetadataValue]) -> KernelMetadata:
    def number(key: str) -> int | None:
        value = entry.get(key)
        return value if isinstance(value, int) else None

    block = entry.get(".reqd_workgroup_size")
    sizes = [v for v in block if isinstance(v, int)] if isinstance(block, list) else []
    return KernelMetadata(
        kernarg_bytes=number(".kernarg_segment_size"),
        group_segment_bytes=number(".group_segment_fixed_size"),
        private_segment_bytes=number(".private_segment_fixed_size"),
        wavefront_size=number(".wavefront_size"),
        sgprs=number(".sgpr_count"),
        vgprs=number(".vgpr_count"),
        agprs=number(".agpr_count"),
        max_work_items=number(".max_flat_workgroup_size"),
        required_block=(sizes[0], sizes[1], sizes[2]) if len(sizes) == 3 else None,
    )


def _argument(entry: Mapping[str, MetadataValue]) -> KernelArgument:
    offset, size = entry.get(".offset"), entry.get(".size")
    if not isinstance(offset, int) or not isinstance(size, int):
        raise CodeObjectError("a kernel argument in the metadata has no offset or size")
    if not (0 <= offset <= MOST_KERNARG and 0 <= size <= MOST_KERNARG):
        raise CodeObjectError(
            f"a kernel argument in the metadata has {size} bytes at byte {offset}; a kernarg "
            f"segment has at most {MOST_KERNARG}"
        )
    return KernelArgument(
        offset, size, str(entry.get(".value_kind", "by_value")), str(entry.get(".name", ""))
    )


def _metadata(sections: list[ElfSection]) -> dict[str, MetadataValue]:
    for section in sections:
        if section.kind != _SHT_NOTE:
            continue
        at = 0
        while at + 12 <= len(section.data):
            name_size, size, kind = struct.unpack_from("<III", section.data, at)
            at += 12
            owner = section.data[at : at + name_size].rstrip(b"\0")
            at += (name_size + 3) & ~3
            body = section.data[at : at + size]
            at += (size + 3) & ~3
            if owner == b"AMDGPU" and kind == _NT_AMDGPU_METADATA:
                document = parse_metadata(body)
                if isinstance(document, dict):
                    return document
    return {}

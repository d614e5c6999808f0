"""Find code objects in what people have: files, folders, bundles, archives, host programs.

    for found in code_objects(Path("build")):
        found.name, found.data            # "build/libk.so!gfx942#0", bytes of an ELF file

Known: linked code objects and object files (ELF for AMDGPU), assembly, offload bundles of clang,
plain or compressed with zlib or zstd, the same in a host program's ``.hip_fatbin``, ``ar`` and
``tar`` archives of all these, and folders of them, Triton's cache among them. What a file says of
itself decides, not its name; in folders only files whose names end as kernels' do are opened.

Bundle formats: LLVM, "Clang Offload Bundler" (clang.llvm.org/docs/ClangOffloadBundler.html).
"""

from __future__ import annotations

import importlib
import io
import os
import struct
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from pipeloom.errors import SpecError
from pipeloom.files import MOST_BINARY, read_file
from pipeloom.machine.elf import read_sections

ENDINGS = (
    *(".co", ".hsaco", ".o", ".so", ".s", ".S", ".asm", ".a", ".hipfb", ".fatbin", ".out"),
    *(".tar", ".tgz", ".tar.gz"),
)
"""Of files that are opened in a folder."""
ASSEMBLY = (".s", ".S", ".asm", ".amdgcn")
"""The last is Triton's, which has a code object beside it: in a folder that one is opened."""
MOST_FILES = 100_000
MOST_UNPACKED = 1 << 30
"""Bytes that one file may unpack to, all its parts together."""
MOST_DEPTH = 4
"""Of archives in archives."""
_BUNDLE, _COMPRESSED, _ARCHIVE, _ELF = (
    b"__CLANG_OFFLOAD_BUNDLE__",
    b"CCOB",
    b"!<arch>\n",
    b"\x7fELF",
)
_AMDGPU = 224
_ZLIB, _ZSTD = 0, 1
_ZSTD_MODULES = ("compression.zstd", "backports.zstd")
"""Python's own, from 3.14 on, and the same for older ones."""


@dataclass(frozen=True, slots=True)
class FoundCode:
    """Bytes of a code object or text of assembly, and where they were."""

    name: str
    data: bytes
    fault: str = ""
    """Why nothing can be read there."""

    @property
    def is_assembly(self) -> bool:
        """Whether it has to be assembled."""
        return self.name.endswith(ASSEMBLY)


def files_of(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Every file that the paths mean, in a fixed order, each once."""
    found: dict[str, None] = {}
    for path in paths:
        if not os.path.exists(path):
            raise SpecError(f"there is no {path}", hint="give files or folders", field="paths")
        if not os.path.isdir(path):
            found[path] = None
            continue
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                if name.endswith(ENDINGS):
                    found[os.path.join(folder, name)] = None
                if len(found) > MOST_FILES:
                    raise SpecError(
                        f"{path} holds more than {MOST_FILES:,} files", hint="scan parts of it"
                    )
    return tuple(found)


def code_objects(path: str) -> Iterator[FoundCode]:
    """The code objects of one file; what cannot be read comes with its fault."""
    try:
        data = read_file(path, MOST_BINARY)
    except OSError as error:
        yield FoundCode(path, b"", f"cannot be read: {error.strerror or error}")
        return
    yield from _Unpacking().parts(path, data, 0)


class _Unpacking:
    """One file, with an eye on what its parts come to."""

    def __init__(self) -> None:
        self._left = MOST_UNPACKED

    def parts(self, name: str, data: bytes, depth: int) -> Iterator[FoundCode]:
        """The code objects in some bytes."""
        self._left -= len(data)
        if self._left < 0 or depth > MOST_DEPTH:
            yield FoundCode(name, b"", "unpacks to too much")
            return
        try:
            yield from self._open(name, data, depth)
        except (struct.error, ValueError, IndexError, zlib.error, tarfile.TarError, OSError) as why:
            yield FoundCode(name, b"", f"is cut short or malformed: {why}")

    def _open(self, name: str, data: bytes, depth: int) -> Iterator[FoundCode]:
        if data.startswith(_ELF):
            machine = struct.unpack_from("<H", data, 18)[0]
            if machine == _AMDGPU:
                yield FoundCode(name, data)
                return
            for section in read_sections(data):
                if section.name == ".hip_fatbin":
                    yield from self._bundles(name, section.data, depth)
        elif data.startswith((_BUNDLE, _COMPRESSED)):
            yield from self._bundles(name, data, depth)
        elif data.startswith(_ARCHIVE):
            for member, content in _members(data):
                if content.startswith((_ELF, _BUNDLE, _COMPRESSED, _ARCHIVE)):
                    yield from self.parts(f"{name}!{member}", content, depth + 1)
        elif name.endswith(ASSEMBLY):
            yield FoundCode(name, data)
        elif name.endswith((".tar", ".tgz", ".tar.gz")):
            yield from self._tar(name, data, depth)
        elif not depth:
            yield FoundCode(name, b"", "is no code object, bundle, archive or assembly (.s)")

    def _tar(self, name: str, data: bytes, depth: int) -> Iterator[FoundCode]:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for number, member in enumerate(archive):
                if number > MOST_FILES or member.size > self._left:
                    raise ValueError("it unpacks to too much")
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is not None and member.name.endswith(ENDINGS):
                    yield from self.parts(f"{name}!{member.name}", stream.read(), depth + 1)

    def _bundles(self, name: str, data: bytes, depth: int) -> Iterator[FoundCode]:
        """All bundles in a row, as linkers leave them."""
        at, number = 0, 0
        while at >= 0:
            if data.startswith(_COMPRESSED, at):
                bundle, end = self._decompressed(data, at)
            else:
                bundle, end = data[at:], at + len(_BUNDLE)
            for triple, content in _entries(bundle):
                if "amdgcn" in triple and content:
                    chip = triple.rpartition("--")[2] or triple.rpartition("-")[2]
                    yield from self.parts(f"{name}!{chip}#{number}", content, depth + 1)
            number += 1
            places = [data.find(magic, end) for magic in (_BUNDLE, _COMPRESSED)]
            at = min((place for place in places if place >= 0), default=-1)

    def _decompressed(self, data: bytes, at: int) -> tuple[bytes, int]:
        version, method = struct.unpack_from("<HH", data, at + 4)
        if version == 1:
            size, raw, header = len(data) - at, struct.unpack_from("<I", data, at + 8)[0], 20
        elif version == 2:
            size, raw, header = *struct.unpack_from("<II", data, at + 8), 24
        elif version == 3:
            size, raw, header = *struct.unpack_from("<QQ", data, at + 8), 32
        else:
            raise ValueError(f"a compressed bundle of version {version}")
        if raw > self._left:
            raise ValueError("it unpacks to too much")
        unpacked = _unpacked(method, data[at + header : at + size], raw)
        return unpacked, at + max(size, header)


def _unpacked(method: int, packed: bytes, most: int) -> bytes:
    if method == _ZLIB:
        return zlib.decompressobj().decompress(packed, most)
    if method != _ZSTD:
        raise ValueError(f"a bundle compressed by method {method}, which is neither zlib nor zstd")
    for name in _ZSTD_MODULES:
        try:
            zstd = importlib.import_module(name)
        except ImportError:
            continue
        try:
            return bytes(zstd.ZstdDecompressor().decompress(packed, most))
        except zstd.ZstdError as error:
            raise ValueError(f"a bundle compressed with zstd that is malformed: {error}") from error
    raise ValueError(
        "a bundle compressed with zstd, which Python reads from 3.14 on; before that install "
        "pipeloom[zstd]"
    )


def _entries(bundle: bytes) -> Iterator[tuple[str, bytes]]:
    if not bundle.startswith(_BUNDLE):
        raise ValueError("no offload bundle")
    (count,) = struct.unpack_from("<Q", bundle, len(_BUNDLE))
    at = len(_BUNDLE) + 8
    for _ in range(count):
        offset, size, length = struct.unpack_from("<QQQ", bundle, at)
        at += 24
        triple = bundle[at : at + length]
        at += length
        if len(triple) < length or offset + size > len(bundle):
            raise ValueError("an entry of the bundle lies outside it")
        yield triple.decode("utf-8", "replace"), bundle[offset : offset + size]


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Of an ``ar`` archive; long names stand in a member of their own (GNU) or in front (BSD)."""
    at, names = len(_ARCHIVE), b""
    while at + 60 <= len(data):
        header = data[at : at + 60]
        size = int(header[48:58])
        content = data[at + 60 : at + 60 + size]
        at += 60 + size + (size & 1)
        name = header[:16].rstrip()
        if name == b"//":
            names = content
        elif name in (b"/", b"/SYM64/", b"__.SYMDEF"):
            continue
        elif name[:1] == b"/" and name[1:].isdigit():
            yield names[int(name[1:]) :].split(b"/\n", 1)[0].decode("utf-8", "replace"), content
        else:
            yield name.rstrip(b"/").decode("utf-8", "replace"), content

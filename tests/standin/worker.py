"""The emulator behind the stand-in for HIP: one process for each that connects, forked warm.

    python -m tests.standin.worker SOCKET

It has the code objects and sees the device memory, which is shared; the library has the rest. What
the emulator finds ends up as the error that hardware would give: 700 for an address that no buffer
has, 719 for the rest, with the finding in the error output.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import struct
import sys
from pathlib import Path

import numpy as np

from pipeloom.array_kinds import Octets
from pipeloom.errors import ScheduleError
from pipeloom.judge.emulate import (
    CodeKernel,
    DefectKind,
    PlacedArg,
    Timing,
    load_code_object,
    run_kernel,
)
from pipeloom.judge.emulate.global_memory import GlobalBuffer, GlobalMemory

ALLOCATE, FREE, LOAD, RUN = 1, 2, 3, 4
BAD_IMAGE, OTHER_CHIP, ILLEGAL, FAILURE = 200, 209, 700, 719
LAUNCH = struct.Struct("<Q3I3III512s")
MOST_THREADS = 1024


class Worker:
    """The state of one connected process."""

    def __init__(self) -> None:
        self.memory: dict[int, tuple[Octets, int]] = {}
        self.modules: dict[int, dict[str, CodeKernel]] = {}

    def answer(self, what: int, body: bytes) -> tuple[int, bytes]:
        """An error number, and what was asked for."""
        match what:
            case 1:
                base, size = struct.unpack_from("<QQ", body)
                return self.allocate(base, size, Path(body[16:].decode()))
            case 2:
                del self.memory[struct.unpack("<Q", body)[0]]
                return 0, b""
            case 3:
                (number,) = struct.unpack_from("<Q", body)
                return self.load(number, body[8:72].split(b"\0", 1)[0].decode(), body[72:])
            case 4:
                return self.run(body)
        raise ValueError(what)

    def allocate(self, base: int, size: int, path: Path) -> tuple[int, bytes]:
        with path.open("r+b") as file:
            mapped = mmap.mmap(file.fileno(), 0)
        whole = -(-size // 4) * 4  # memory comes in pages: the last word is there
        self.memory[base] = np.frombuffer(mapped, np.uint8)[:whole], whole
        return 0, b""

    def load(self, number: int, arch: str, image: bytes) -> tuple[int, bytes]:
        try:
            code = load_code_object(image)
        except ScheduleError as error:
            print(f"stand-in: {error}", file=sys.stderr, flush=True)
            return BAD_IMAGE, b""
        kernels = dict(code.kernels)
        if any(kernel.arch != arch for kernel in kernels.values()):
            return OTHER_CHIP, b""
        self.modules[number] = kernels
        return 0, b"".join(map(_described, kernels.values()))

    def run(self, body: bytes) -> tuple[int, bytes]:
        number, *rest = LAUNCH.unpack_from(body)
        grid, block, (shared, size, name) = rest[:3], rest[3:6], rest[6:]
        kernel = self.modules[number][name.split(b"\0", 1)[0].decode()]
        memory = GlobalMemory()
        for base, (octets, length) in self.memory.items():
            name, words = f"the buffer at {base:#x}", octets.view(np.uint32)
            memory.buffers.append(GlobalBuffer(name, base, length, octets, words))
        arguments = body[LAUNCH.size : LAUNCH.size + size]
        try:
            result = run_kernel(
                kernel,
                grid=grid,
                block=block,
                args=[PlacedArg(0, size, arguments)] if size else [],
                dynamic_lds=shared,
                timing=Timing.RANDOM,
                check_races=False,
                check_wait_states=False,
                max_findings=1,
                memory=memory,
            )
        except ScheduleError as error:
            print(f"stand-in: {kernel.name}: {error}", file=sys.stderr, flush=True)
            return FAILURE, b""
        for finding in result.findings:
            print(f"stand-in: {kernel.name}: {finding}", file=sys.stderr, flush=True)
        if result.findings:
            outside = result.findings[0].kind is DefectKind.OUT_OF_BOUNDS
            return ILLEGAL if outside else FAILURE, b""
        return 0, struct.pack("<Q", result.executed)


def _described(kernel: CodeKernel) -> bytes:
    explicit = kernel.explicit_arguments
    size = max((a.offset + a.size for a in explicit), default=0) or kernel.kernarg_size
    registers = (kernel.rsrc1 & 0x3F) * 8 + 8
    threads = kernel.metadata.max_work_items or MOST_THREADS
    private = kernel.private_segment_bytes
    lds = kernel.group_segment_bytes
    head = struct.pack("<6I", size, threads, lds, private, registers, len(explicit))
    places = b"".join(struct.pack("<2I", a.offset, a.size) for a in explicit)
    return kernel.name.encode() + b"\0" + head + places


def serve(connection: socket.socket) -> None:
    """Answer one process until it hangs up."""
    worker = Worker()
    with connection, connection.makefile("rb") as coming:
        while len(head := coming.read(8)) == 8:
            what, size = struct.unpack("<II", head)
            code, reply = worker.answer(what, coming.read(size))
            connection.sendall(struct.pack("<iI", code, len(reply)) + reply)


def main(path: str) -> None:
    """Listen until the process that started this one is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    parent = os.getppid()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(32)
        listening.settimeout(2.0)
        print("listening", flush=True)
        while os.getppid() == parent:
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                continue
            if os.fork() == 0:
                connection.settimeout(None)
                serve(connection)
                os._exit(0)
            connection.close()


if __name__ == "__main__":
    main(sys.argv[1])

"""Compile the stand-in and start its emulator.

with StandIn.start(folder) as stand:
    os.environ |= stand.environment()          # the search for HIP finds it
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).parent
SOURCE = HERE / "hip_standin.c"
NAME = "libamdhip64.so.7"
FLAGS = (
    *("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"),
    *("-fvisibility=hidden", "-Wl,-soname,libamdhip64.so.7"),
)


def compiler() -> list[str]:
    """The system's C compiler, or zig's, which assembling needs anyway."""
    known = shutil.which("cc")
    return [known] if known else [sys.executable, "-m", "ziglang", "cc"]


def compile_library(source: Path, target: Path) -> None:
    """A shared library from one file of C, without a warning."""
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command = [*compiler(), *flags, str(source), "-o", str(target), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)


def compile_standin(folder: Path) -> Path:
    """The library in a folder of its own, by its content: who comes second finds it there."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    place = folder / f"standin-{digest}"
    place.mkdir(parents=True, exist_ok=True)
    target = place / NAME
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=place) as own:
            made = Path(own) / NAME
            command = [*compiler(), *FLAGS, str(SOURCE), "-o", str(made), "-lpthread"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr)
            made.replace(target)
    return target


@dataclass
class StandIn:
    """A compiled stand-in and the process that emulates for it."""

    library: Path
    socket: Path
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, folder: Path) -> StandIn:
        """Compile, start, and wait until it listens."""
        library = compile_standin(folder)
        place = Path(tempfile.mkdtemp(prefix="standin-")) / "emulator"  # short: sockets' names are
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.standin.worker", str(place)],
            cwd=HERE.parents[1],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        if process.stdout.readline().strip() != "listening":
            raise RuntimeError("the emulator did not start")
        return cls(library, place, process)

    def environment(self, devices: str = "gfx950,gfx942,gfx950") -> dict[str, str]:
        """What finds it: the search goes by LD_LIBRARY_PATH, as for a real one."""
        return {
            "LD_LIBRARY_PATH": str(self.library.parent),
            "PIPELOOM_STANDIN_SOCKET": str(self.socket),
            "PIPELOOM_STANDIN_DEVICES": devices,
        }

    def __enter__(self) -> StandIn:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.socket.parent, ignore_errors=True)


if __name__ == "__main__":  # a shell in which pipeloom finds it
    with StandIn.start(Path(tempfile.gettempdir())) as stand:
        os.environ.update(stand.environment())
        sys.exit(subprocess.call(sys.argv[1:] or [os.environ.get("SHELL", "sh")]))

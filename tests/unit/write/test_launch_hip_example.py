"""The HIP launcher, against a stand-in for HIP whose launches run in the emulator."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
import shlex
import struct
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeloom.cli.main import main
from pipeloom.judge.emulate import load_code_object, run_kernel

EXAMPLE = Path(__file__).parents[3] / "examples" / "launch_hip.py"
SMALL = ["--set", "geometry.BM=128", "--set", "geometry.BN=128"]


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("launch_hip", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class FakeHip:
    """Device memory by address, and a launch that the emulator executes once."""

    def __init__(self) -> None:
        self.memory: dict[int, np.ndarray[Any, Any]] = {}
        self.launches: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self.hipGetErrorString = SimpleNamespace(restype=None)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("hip"):
            raise AttributeError(name)
        return lambda *arguments: 0  # events and the like

    def hipModuleLoad(self, module: Any, path: bytes) -> int:
        self.code = load_code_object(path.decode())
        return 0

    def hipModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        self.kernel = self.code.kernel(name.decode())
        return 0

    def hipMalloc(self, pointer: Any, size: Any) -> int:
        pointer._obj.value = 0x7F00_0000_0000 + (len(self.memory) << 20)
        self.memory[pointer._obj.value] = np.zeros(size.value, np.uint8)
        return 0

    def hipMemcpy(self, target: Any, source: Any, size: Any, kind: int) -> int:
        addresses = {1: (self._host(target), source.value), 2: (target.value, self._host(source))}
        ctypes.memmove(*addresses[kind], size.value)
        return 0

    def _host(self, pointer: Any) -> int:
        array = self.memory.get(pointer.value)
        return 0 if array is None else array.ctypes.data

    def hipEventElapsedTime(self, elapsed: Any, start: Any, stop: Any) -> int:
        elapsed._obj.value = 1.0
        return 0

    def hipModuleLaunchKernel(self, function: Any, *rest: Any) -> int:
        grid, block, (shared, stream, parameters, extra) = rest[:3], rest[3:6], rest[6:]
        assert (shared, stream, parameters) == (0, None, None)
        assert (extra[0], extra[2], extra[4]) == (1, 2, 3), "HIP_LAUNCH_PARAM_*"
        size = ctypes.c_size_t.from_address(extra[3]).value
        packed = ctypes.string_at(extra[1], size)
        self.launches.append((grid, block))
        if len(self.launches) > 1:
            return 0
        values: list[Any] = []
        for argument in self.kernel.arguments:
            if argument.is_pointer:
                values.append(self.memory[struct.unpack_from("<Q", packed, argument.offset)[0]])
            else:
                values.append(struct.unpack_from("<i", packed, argument.offset)[0])
        assert size == self.kernel.kernarg_size
        assert run_kernel(self.kernel, grid=grid, block=block, args=values).ok
        return 0


@pytest.mark.parametrize(
    ("command", "sizes"),
    [
        (["ping_pong", *SMALL], (130, 100, 128)),
        (["single_buffer", "--target", "gfx942", "--dtype", "fp16"], (64, 64, 192)),
        (["single_buffer", "--target", "gfx942", "--dtype", "fp8"], (64, 64, 256)),
        (["ping_pong", "--dtype", "fp8", "--out-dtype", "f32", *SMALL], (64, 64, 256)),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_every_type_arrives(
    example: ModuleType, tmp_path: Path, command: list[str], sizes: tuple[int, int, int]
) -> None:
    binary = tmp_path / "k.hsaco"
    assert main(["emit", *command, "-o", str(binary)]) == 0
    fake = FakeHip()
    shape = [f"--{name}={size}" for name, size in zip("mnk", sizes, strict=True)]
    assert example.main([str(binary), *shape, "--runs=2"], fake) == 0
    record = json.loads((tmp_path / "k.json").read_text())
    tile = record["tile"]
    grid = (-(-sizes[1] // tile["n"]), -(-sizes[0] // tile["m"]), 1)
    assert fake.launches == [(grid, (record["threads"], 1, 1))] * 3


def test_the_documented_commands_work(example: ModuleType, tmp_path: Path) -> None:
    assert example.__doc__
    emit, launch = (
        shlex.split(line) for line in re.findall(r"^ {4}(\w.*)$", example.__doc__, re.M)
    )
    assert emit[:2] == ["pipeloom", "emit"]
    assert launch[:2] == ["python", "examples/launch_hip.py"]
    place = {"k.hsaco": str(tmp_path / "k.hsaco")}
    assert main([place.get(word, word) for word in emit[1:]]) == 0
    given = [place.get(word, word) for word in launch[2:]]
    parsed = example.arguments().parse_args(given)
    record = example.read_record(parsed.code.with_suffix(".json"))
    assert (parsed.k - record["k_min"]) % record["k_step"] == 0
    # The same command on a problem that the emulator finishes: later options win.
    fake = FakeHip()
    assert example.main([*given, "--m=200", "--n=300", "--k=128", "--runs=1"], fake) == 0
    assert fake.launches[0] == ((2, 1, 1), (512, 1, 1))


def test_what_it_refuses(example: ModuleType, tmp_path: Path) -> None:
    binary = tmp_path / "k.hsaco"
    with pytest.raises(SystemExit, match=r"k\.json.*emit the kernel with -o k\.hsaco"):
        example.main([str(binary)], FakeHip())
    (tmp_path / "k.json").write_text("{}")
    with pytest.raises(SystemExit, match="does not say how to launch a kernel"):
        example.main([str(binary)], FakeHip())
    (tmp_path / "k.json").unlink()
    assert main(["emit", "ping_pong", *SMALL, "-o", str(binary)]) == 0
    with pytest.raises(SystemExit, match=r"K is 192, but this kernel takes 128 \+ i \* 128"):
        example.main([str(binary), "--k=192"], FakeHip())
    record = example.read_record(tmp_path / "k.json")
    with pytest.raises(
        SystemExit, match="the kernel takes A, B, out, m, k, n, ld_A, ld_B, ld_out, not A"
    ):
        example.pack_arguments(record, {"A": 1})

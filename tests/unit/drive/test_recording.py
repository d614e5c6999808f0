"""Launches recorded from programs that run, and judged: by dlsym, by linking, by registration."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pipeloom as pl
from pipeloom.cli.main import main
from pipeloom.drive import recording
from pipeloom.drive.kernel_files import open_kernel
from pipeloom.drive.raw_launches import RawLaunch, raw_launches
from pipeloom.drive.recording import RecordedLaunches, compiled, record
from pipeloom.errors import ScheduleError
from pipeloom.judge.emulate import run_kernel
from pipeloom.machine_code.launch_buffers import Buffer
from pipeloom.machine_code.launch_file import load_launch
from tests.standin.build import StandIn, compiler
from tests.unit.cli.test_check_command import TEXT
from tests.unit.device.test_others_kernels import TABLE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD is Linux's")

HEAD = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef struct { unsigned x, y, z; } dim3;
int hipMalloc(void **, size_t); int hipFree(void *); int hipMemset(void *, int, size_t);
int hipMemcpy(void *, const void *, size_t, int);
int hipModuleLoad(void **, const char *); int hipModuleGetFunction(void **, void *, const char *);
int hipDeviceSynchronize(void);
typedef unsigned u;
int hipExtModuleLaunchKernel(void *, u, u, u, u, u, u, size_t, void *, void **, void **, void *,
                             void *, u);
int hipLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
void **__hipRegisterFatBinary(const void *);
void __hipRegisterFunction(void **, const void *, char *, const char *, u, void *, void *, void *,
                           void *, int *);
#define TRY(call) do { if (call) { fprintf(stderr, "%s fails\n", #call); return 3; } } while (0)
"""
SWAPS = r"""
static void swap(void) {}
static struct { unsigned magic, version; void *bundle, *spare; } wrapper = {0x48495046, 1, 0, 0};
int main(int count, char **given) {
    void *x, *y, *module, *kernel;
    TRY(hipMalloc(&x, 512)); TRY(hipMalloc(&y, 512));
    void *arguments[] = {&x, &y};
    FILE *file = fopen(given[2], "rb");
    wrapper.bundle = malloc(1 << 20);
    if (!fread(wrapper.bundle, 1, 1 << 20, file)) return 4;
    void **handle = __hipRegisterFatBinary(&wrapper);
    __hipRegisterFunction(handle, (void *)swap, "swap", "swap", -1, 0, 0, 0, 0, 0);
    TRY(hipLaunchKernel((void *)swap, (dim3){1, 1, 1}, (dim3){128, 1, 1}, arguments, 0, 0));
    TRY(hipModuleLoad(&module, given[1])); TRY(hipModuleGetFunction(&kernel, module, "swap"));
    TRY(hipExtModuleLaunchKernel(kernel, 256, 1, 1, 128, 1, 1, 0, 0, arguments, 0, 0, 0, 0));
    TRY(hipDeviceSynchronize());
    TRY(hipFree(x)); TRY(hipFree(y));
    return count > 3 ? 7 : 0;
}
"""
TABLES = r"""
int main(int count, char **given) {
    void *x, *table, *y, *module, *kernel;
    int numbers[80];
    (void)count;
    for (int i = 0; i < 80; i++) numbers[i] = i;
    TRY(hipMalloc(&x, 320)); TRY(hipMalloc(&table, 24)); TRY(hipMalloc(&y, 512));
    uint64_t words[] = {0, (uint64_t)x, (uint64_t)x + 64};
    TRY(hipMemcpy(x, numbers, 320, 1)); TRY(hipMemcpy(table, words, 24, 1));
    TRY(hipMemset(y, 0, 512));
    struct { void *table, *out; } block = {table, (char *)y + 256};
    size_t size = sizeof block;
    void *extra[] = {(void *)1, &block, (void *)2, &size, (void *)3};
    TRY(hipModuleLoad(&module, given[1])); TRY(hipModuleGetFunction(&kernel, module, "by_table"));
    for (int i = 0; i < 3; i++)
        TRY(hipExtModuleLaunchKernel(kernel, 64, 1, 1, 64, 1, 1, 0, 0, 0, extra, 0, 0, 0));
    TRY(hipDeviceSynchronize());
    return 0;
}
"""


@pytest.fixture
def at_hand(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in standin.environment().items():
        monkeypatch.setenv(name, value)


def _program(standin: StandIn, folder: Path, text: str) -> str:
    source, target = folder / "program.c", folder / "program"
    source.write_text(HEAD + text)
    link = [str(standin.library), f"-Wl,-rpath,{standin.library.parent}"]
    command = [*compiler(), "-std=c11", "-w", str(source), "-o", str(target), *link]
    subprocess.run(command, check=True)
    return str(target)


def _bundle(code: bytes) -> bytes:
    """An offload bundle: nothing for the host, then one code object per chip."""
    names = [b"host-x86_64-unknown-linux--", b"hipv4-amdgcn-amd-amdhsa--gfx950"]
    size = 32 + sum(24 + len(name) for name in names)
    entries = [struct.pack("<3Q", size, 0, len(names[0])) + names[0]]
    entries.append(struct.pack("<3Q", size, len(code), len(names[1])) + names[1])
    return b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 2) + b"".join(entries) + code


def test_registered_and_extended_launches(standin: StandIn, at_hand: None, tmp_path: Path) -> None:
    """Two ways to launch: the sizes of arguments come from metadata, extents from hipMalloc."""
    (tmp_path / "swap.s").write_text(TEXT)
    code = open_kernel(tmp_path / "swap.s").data
    (tmp_path / "swap.co").write_bytes(code)
    (tmp_path / "swap.hipfb").write_bytes(_bundle(code))
    program = _program(standin, tmp_path, SWAPS)
    command = [program, str(tmp_path / "swap.co"), str(tmp_path / "swap.hipfb")]
    made = record(command, tmp_path / "out", each=2)
    assert [Path(path).name for path in made.launches] == ["swap.hsaco", "swap-2.hsaco"]
    assert (made.faults, made.exit_code) == ((), 0)
    first, second = (load_launch(path.replace(".hsaco", ".launch.json")) for path in made.launches)
    assert (first.grid, first.block) == ((1, 1, 1), (128, 1, 1))
    assert (second.grid, second.block) == ((2, 1, 1), (128, 1, 1))
    for launch in (first, second):
        assert [one.size for one in launch.args] == [8, 8]
        assert all(one.array().nbytes == 512 for one in launch.args if isinstance(one, Buffer))
    known = pl.check(code, grid=(1,), block=(128,), args=[np.zeros(128, np.uint32)] * 2).verdict
    found = pl.check(code, grid=first.grid, block=first.block, args=first.arguments()).verdict
    assert found.summary() == known.summary()
    assert Path(made.launches[0]).read_bytes() == code
    assert record([*command, "fail"], tmp_path / "again").exit_code == 7


def test_the_program_is_not_disturbed(standin: StandIn, at_hand: None, tmp_path: Path) -> None:
    """Its numbers are the same, and what it looks up behind itself is found."""
    script = tmp_path / "script.py"
    (tmp_path / "swap.s").write_text(TEXT)
    script.write_text(
        "import numpy as np, pipeloom as pl\n"
        "from pipeloom.machine_code.launch_file import LaunchSpec\n"
        "from pipeloom.machine_code.launch_buffers import Buffer\n"
        "how = LaunchSpec('swap', (1,), (128,), (Buffer('x', 0, (128,), 'u32'),"
        " Buffer('y', 8, (128,), 'u32')))\n"
        "y = np.zeros(128, np.uint32)\n"
        f"pl.launch({str(tmp_path / 'swap.s')!r}, how=how, unproved=True, y=y)\n"
        "assert y.tolist() == [*range(64, 128), *range(64)]\n"
    )
    made = record([sys.executable, str(script)], tmp_path / "out", kernel="swa", contents=True)
    assert made.exit_code == 0
    (path,) = made.launches
    assert main(["check", path]) == 0


def test_contents_and_tables_of_pointers(standin: StandIn, at_hand: None, tmp_path: Path) -> None:
    """The recorded launch computes what the program computed."""
    (tmp_path / "k.s").write_text(TABLE)
    (tmp_path / "k.co").write_bytes(open_kernel(tmp_path / "k.s").data)
    program = _program(standin, tmp_path, TABLES)
    made = record(
        [program, str(tmp_path / "k.co")], tmp_path / "out", contents=True, each=1, skip=1
    )
    (path,) = made.launches
    launch = load_launch(path.replace(".hsaco", ".launch.json"))
    contents = launch.contents()
    placed = launch.placed(contents)
    kernel = open_kernel(path).kernel
    run_kernel(kernel, grid=launch.grid, block=launch.block, args=placed)
    stored = [one for one in contents.values() if isinstance(one, np.ndarray) and one.nbytes == 512]
    want = np.arange(64, dtype=np.int32) + np.arange(16, 80, dtype=np.int32)
    np.testing.assert_array_equal(stored[0].view(np.int32)[64:], want)
    # Without contents there is no table, and buffers are zeros.
    bare = record([program, str(tmp_path / "k.co")], tmp_path / "bare")
    launch = load_launch(bare.launches[0].replace(".hsaco", ".launch.json"))
    assert launch.files() == ()


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """``record`` that compiles and runs nothing."""
    seen: list[str] = []
    monkeypatch.setattr(recording, "compiled", lambda folder: folder / "none.so")
    return seen


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        ([], {}, "no command"),
        (["/nowhere/at/all"], {}, "cannot run /nowhere/at/all"),
        (["true"], {}, "nothing was recorded of true"),
        (["true"], {"each": 0}, "each is 0"),
        (["true"], {"skip": -1}, "skip is -1"),
    ],
)
def test_slips(
    made_up: list[str], tmp_path: Path, command: list[str], options: dict[str, int], words: str
) -> None:
    with pytest.raises(ScheduleError, match=words):
        record(command, tmp_path / "out", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_compilers_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    with pytest.raises(ScheduleError, match="false does not compile"):
        compiled(tmp_path)
    monkeypatch.delenv("CC")
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ScheduleError, match="no C compiler"):
        compiled(tmp_path)


def test_other_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(ScheduleError, match="on Linux alone"):
        record(["true"], tmp_path)


RAW = """kernel swap
code 1
grid 1 1 1
block 128 1 1
lds 0
fault 0
arch gfx950:sramecc+:xnack-
arguments {arguments}
memory 4096 512
memory 16384 8
end
"""


def _raw(folder: Path, text: str, number: int = 1) -> list[RawLaunch | str]:
    (folder / f"launch-{number}.txt").write_text(text)
    return list(raw_launches(folder))


def test_records_that_cannot_be_told(tmp_path: Path) -> None:
    (tmp_path / "swap.s").write_text(TEXT)
    text = RAW.format(arguments=struct.pack("<2Q", 4096, 0).hex())
    assert "cannot be read" in str(_raw(tmp_path, text)[0])
    (tmp_path / "code-1.bin").write_bytes(open_kernel(tmp_path / "swap.s").data)
    assert "cannot be read" in str(_raw(tmp_path, text.replace("gfx950", "gfx942"))[0])
    assert "cannot be read" in str(_raw(tmp_path, text.replace("fault 0", "fault 1"))[0])
    assert "ended while" in str(_raw(tmp_path, text.replace("end\n", ""))[0])


def test_null_and_shared_pointers(tmp_path: Path) -> None:
    (tmp_path / "swap.s").write_text(TEXT)
    (tmp_path / "code-1.bin").write_bytes(open_kernel(tmp_path / "swap.s").data)

    def rows(x: int, y: int) -> list[dict[str, object]]:
        (one,) = _raw(tmp_path, RAW.format(arguments=struct.pack("<2Q", x, y).hex()))
        assert isinstance(one, RawLaunch)
        found = json.loads(str(one.files("k")["k.launch.json"]))
        return list(found["args"])

    x, y = rows(4096, 0)
    assert (x["shape"], y["value"]) == ([64], 0)
    memory, x, y = rows(4096, 4096 + 128)
    assert memory["shape"] == [64]
    assert (x["same_as"], y["same_as"], y["byte"]) == (memory["name"], memory["name"], 128)
    x, y = rows(1 << 63, 3)
    assert (x["type"], x["value"]) == ("u64", 1 << 63)


def test_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def recorded(command: tuple[str, ...], folder: str, **options: object) -> RecordedLaunches:
        asked.append((command, folder, options))
        return RecordedLaunches((f"{folder}/k.hsaco",), ("other: why",), -9)

    monkeypatch.setattr("pipeloom.cli.record.record", recorded)
    assert main(["record", "--each", "2", "-o", "out", "--", "app", "--flag"]) == 137
    told = capsys.readouterr()
    assert "out/k.launch.json" in told.out
    assert "other: why" in told.err
    (command, folder, options) = asked[0]
    assert (command, folder, options["each"]) == (("app", "--flag"), "out", 2)
    assert main(["record", "--json", "app"]) == 137
    assert json.loads(capsys.readouterr().out)["faults"] == ["other: why"]
    with pytest.raises(SystemExit):
        main(["record"])


def test_the_recorder_compiles_without_a_warning(tmp_path: Path) -> None:
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    target = str(tmp_path / "x.so")
    command = [*compiler(), *flags, str(recording.SOURCE), "-o", target, "-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})
    assert done.returncode == 0, done.stderr

"""Files, bundles, archives and folders are scanned alike; limits and faults are said."""

from __future__ import annotations

import io
import json
import struct
import sys
import tarfile
import zlib
from pathlib import Path

import pytest

from pipeloom.cli.main import main
from pipeloom.drive import scanning
from pipeloom.drive.code_objects import code_objects
from pipeloom.drive.scanning import scan
from pipeloom.errors import ScheduleError
from pipeloom.judge.scan import control_flow, fixed_point
from pipeloom.write import assemble_text
from tests.unit.judge.scan.conftest import kernel_text

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RACY = "global_load_dword v4, v1, s[4:5]\n v_mov_b32 v5, v4\n s_endpgm"
CLEAN = "global_load_dword v4, v1, s[4:5]\n s_waitcnt vmcnt(0)\n v_mov_b32 v5, v4\n s_endpgm"
MAYBE = "s_cbranch_scc1 .Lx\n global_load_dword v4, v1, s[4:5]\n.Lx:\n v_mov_b32 v5, v4\n s_endpgm"


@pytest.fixture(scope="module")
def racy() -> bytes:
    return assemble_text(kernel_text(RACY), "gfx950")


def bundle(*entries: tuple[str, bytes]) -> bytes:
    """An offload bundle as clang writes it."""
    at = 32 + sum(24 + len(triple) for triple, _ in entries)
    head, body = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)), b""
    for triple, content in entries:
        head += struct.pack("<QQQ", at + len(body), len(content), len(triple)) + triple.encode()
        body += content
    return head + body


def compressed(data: bytes, version: int = 2, method: int = 0) -> bytes:
    packed = zstd.compress(data) if method == 1 else zlib.compress(data)
    sizes = "<QQ" if version == 3 else "<II"
    total = 4 + 4 + struct.calcsize(sizes) + 8 + len(packed)
    return (
        b"CCOB" + struct.pack("<HH", version, method) + struct.pack(sizes, total, len(data))
        + bytes(8) + packed
    )  # fmt: skip


def archive(name: str, content: bytes) -> bytes:
    header = f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode()
    return b"!<arch>\n" + header + content + b"\n" * (len(content) & 1)


def tarred(name: str, content: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as made:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        made.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def test_every_container_gives_the_same_kernel(racy: bytes, tmp_path: Path) -> None:
    packed = bundle(("host-x86_64", b""), ("hipv4-amdgcn-amd-amdhsa--gfx950", racy))
    (tmp_path / "a.co").write_bytes(racy)
    (tmp_path / "b.hipfb").write_bytes(packed)
    (tmp_path / "c.fatbin").write_bytes(compressed(packed))
    (tmp_path / "d.fatbin").write_bytes(compressed(packed, version=3))
    (tmp_path / "e.a").write_bytes(archive("k.o", packed))
    (tmp_path / "f.tar.gz").write_bytes(tarred("in/k.hsaco", racy))
    (tmp_path / "g.s").write_text(kernel_text(RACY))
    (tmp_path / "h.fatbin").write_bytes(packed + bytes(100) + packed)
    (tmp_path / "i.fatbin").write_bytes(compressed(packed, method=1))
    (tmp_path / "notes.txt").write_text("not opened")
    report = scan([tmp_path])
    assert [Path(one.file.partition("!")[0]).name[0] for one in report.kernels] == list(
        "abcdefghhi"
    )
    for one in report.kernels:
        assert not one.reason
        assert [(f.kind.value, f.definite) for f in one.findings] == [("register", True)]
    assert report.kernels[6].findings[0].second.line.startswith("g.s:")
    assert report.exit_code == 4


@pytest.mark.parametrize(
    ("data", "name", "reason"),
    [
        (b"hello", "k.co", "no code object"),
        (b"\x7fELF", "k.co", "cut short"),
        (b"CCOB" + struct.pack("<HH", 9, 0), "k.fatbin", "version 9"),
        (compressed(b"x", method=1)[:-3] + b"xyz", "k.fatbin", "malformed"),
        (compressed(b"x", method=1), "k.fatbin", "no offload bundle"),
        (compressed(b"x", method=2), "k.fatbin", "method 2"),
        (b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 1 << 40), "k.fatbin", "cut short"),
        (bundle(("a-amdgcn--gfx950", b"xx"))[:-1], "k.fatbin", "outside"),
        (b"\x1f\x8b" + bytes(20), "k.tar.gz", "malformed"),
        (b".text", "k.s", "chip"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, name: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    (one,) = scan([path]).kernels
    assert reason in one.reason
    assert scan([path]).exit_code == 6


def test_zstd_that_python_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    path = tmp_path / "k.fatbin"
    path.write_bytes(compressed(b"x", method=1))
    (found,) = code_objects(str(path))
    assert "pipeloom[zstd]" in found.fault


@pytest.mark.parametrize("method", [0, 1])
def test_a_bundle_that_unpacks_without_end(method: int, racy: bytes, tmp_path: Path) -> None:
    path = tmp_path / "k.fatbin"
    claimed = bytearray(compressed(bundle(("amdgcn--gfx950", racy)), method=method))
    claimed[12:16] = struct.pack("<I", 0xFFFFFFFF)
    path.write_bytes(bytes(claimed))
    (found,) = code_objects(str(path))
    assert "too much" in found.fault


EXCHANGE = Path(__file__).parents[3] / "examples"


def test_a_run_confirms_what_is_definite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.s"
    path.write_text((EXCHANGE / "exchange.s").read_text())
    assert [f.confirmed for f in scan([path]).kernels[0].findings] == [""]
    launch = (EXCHANGE / "exchange.json").read_text()
    beside = tmp_path / "k.launch.json"
    beside.write_text(launch)
    (finding,) = scan([path]).kernels[0].findings
    assert "numbers differ" in finding.confirmed
    # One for a kernel of another name says nothing about this one.
    beside.write_text(launch.replace('"exchange"', '"other"'))
    (one,) = scan([path]).kernels
    assert not one.findings[0].confirmed
    assert not one.not_known
    # Of one workgroup with one wave no two waves meet.
    beside.write_text(launch.replace("128, 1, 1", "64, 1, 1"))
    assert not scan([path]).kernels[0].findings[0].confirmed
    assert main(["scan", str(path), "--launch", str(EXCHANGE / "exchange.json")]) == 4
    assert "CONFIRMED definite lds-waves" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("launch", "reason"),
    [("{", "JSON"), ('{"kernel": "exchange", "grid": [1], "block": [64], "args": []}', "takes 2")],
)
def test_a_launch_that_cannot_be_run(launch: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "k.s"
    path.write_text((EXCHANGE / "exchange.s").read_text())
    (tmp_path / "k.launch.json").write_text(launch)
    (one,) = scan([path]).kernels
    assert not one.reason
    assert not one.findings[0].confirmed
    assert reason in one.not_known[-1][0]
    with pytest.raises(ScheduleError):
        scan([path], launch=tmp_path / "no.json")


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, body, code in (("r", RACY, 4), ("m", MAYBE, 3), ("c", CLEAN, 0)):
        path = tmp_path / f"{name}.s"
        path.write_text(kernel_text(body))
        assert main(["scan", str(path)]) == code
    assert "definite register" in capsys.readouterr().out
    assert main(["scan", str(tmp_path / "c.s"), "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["kernel"] == "k"
    assert main(["scan", str(tmp_path / "nothing")]) == 1


def test_processes_give_the_same_report(racy: bytes, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.co").write_bytes(racy)
    (tmp_path / "3.co").write_bytes(b"hello")
    told: list[int] = []
    several = scan([tmp_path], jobs=2, progress=lambda text, done, total: told.append(done))
    assert several == scan([tmp_path])
    assert told == [1, 2, 3, 4]


def test_limits_end_a_kernel_and_not_the_scan(
    racy: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "k.co"
    path.write_bytes(racy)
    monkeypatch.setattr(fixed_point, "MOST_WORK", 1)
    assert "steps to follow" in scan([path]).kernels[0].reason
    monkeypatch.undo()
    monkeypatch.setattr(scanning, "scan_kernel", _endless)
    (one,) = scan([path], seconds=1).kernels
    assert "more than 1 s" in one.reason
    monkeypatch.setattr(scanning, "scan_kernel", _greedy)
    (one,) = scan([path]).kernels
    assert "memory" in one.reason
    with pytest.raises(ScheduleError):
        scan([path], jobs=0)


def _endless(*given: object) -> None:
    while True:
        control_flow.MOST_CONTEXTS.bit_length()


def _greedy(*given: object) -> None:
    raise MemoryError

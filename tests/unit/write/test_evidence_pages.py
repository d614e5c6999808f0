"""The pages of evidence: nothing failed, enough was run, and a run that stops loses no row."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from evidence import evidence_page as pages
from evidence.emit_cases import Case, Shape, weakened_cases
from pipeloom.cli.main import main
from pipeloom.drive.loops import LOOPS

ROOT = Path(__file__).parents[3]
HEADER = ("kernel", "tile", "runs", "failed")


def rows_under(page: str, header_start: str) -> list[dict[str, str]]:
    """The rows of the tables whose header starts so."""
    found: list[dict[str, str]] = []
    header: list[str] = []
    for line in (ROOT / "evidence" / page).read_text(encoding="utf-8").splitlines():
        if line.startswith(header_start):
            header = line[2:-2].split(" | ")
        elif not line.startswith("| "):
            header = []
        elif header and not line.startswith("| ---"):
            found.append(dict(zip(header, line[2:-2].split(" | "), strict=True)))
    return found


def test_rows_survive(tmp_path: Path) -> None:
    """Rows of another kernel stay, in the order of the kernels and not of the runs."""
    page = tmp_path / "page.md"
    first = pages.Table(HEADER, 2)
    first.put(("b", "64x64"), [("80", "0")])
    pages.write_page(page, lambda: "\n".join(["# Title", "", *first.lines(), "", "More."]))
    again = pages.Table(HEADER, 2)
    again.read(page)
    assert again.rows == first.rows
    again.put(("a", "64x64"), [("80", "1")])
    again.put(("b", "64x64"), [("160", "2")])
    again.put(("c", "gone"), [("80", "3")])
    again.arrange([("a", "64x64"), ("b", "64x64")])
    assert again.rows == [("a", "64x64", "80", "1"), ("b", "64x64", "160", "2")]
    assert (again.total("runs"), again.total("failed")) == (240, 3)
    other = pages.Table(("kernel", "why"), 1)
    other.read(page)
    assert other.rows == []
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]


def test_text_cannot_break_a_table() -> None:
    assert pages.cell("a | b\n\nhint:  c") == "a / b hint: c"


SHIPPED = [
    ("ping_pong", "gfx950"),
    ("four_wave", "gfx950"),
    ("single_buffer", "gfx942"),
    ("single_buffer", "gfx950"),
    ("gemm_tile", "gfx942"),
    ("gemm_tile", "gfx950"),
    ("gemm_tile_ping_pong", "gfx942"),
    ("gemm_tile_ping_pong", "gfx950"),
]
"""Every kernel on every chip it is for."""


@pytest.mark.parametrize(
    ("name", "target", "shape"),
    [
        ("ping_pong", "gfx950", (256, 256, 64, 16, 32)),
        ("four_wave", "gfx950", (256, 256, 64, 16, 32)),
        ("single_buffer", "gfx942", (128, 128, 64, 16, 16)),
    ],
)
def test_the_evidence_is_about_what_the_command_emits(
    name: str, target: str, shape: Shape, tmp_path: Path
) -> None:
    written = tmp_path / "k.s"
    main(["emit", name, "--target", target, "--dtype", "bf16", "-o", str(written)])
    case = Case(name, target, "bf16", shape)
    assert written.read_text(encoding="utf-8") == case.emit().text


def test_every_kernel_and_type_was_run() -> None:
    rows = rows_under("emitted-matrix.md", "| kernel | target | types | tile, instruction |")
    assert all(row["failed"] == "0" and row["code"] != "-" for row in rows if "failed" in row)
    run = {
        (row["kernel"], row["target"], row["types"].split(" to ")[0])
        for row in rows
        if row.get("runs") == "8"
    }
    assert run >= {(*kernel, dtype) for kernel in SHIPPED for dtype in ("bf16", "fp16", "fp8")}


def test_weakenings_are_noticed_or_explained() -> None:
    counts = rows_under("emitted-mutants.md", "| kernel | target | types | tile, instruction | w")
    assert {tuple(row.values())[:4] for row in counts} == {c.cells for c in weakened_cases()}
    assert all(int(row["noticed"].split()[0]) > 0 for row in counts)
    missed = rows_under("emitted-mutants.md", "| kernel | target | types | tile, instruction | n")
    assert len(missed) == sum(int(r["unsafe"]) - int(r["noticed"].split()[0]) for r in counts)
    assert not any(row["why"].startswith("unexplained") for row in missed)


def test_every_family_is_weakened_on_every_chip() -> None:
    weakened = {case.cells[:2] for case in weakened_cases()}
    assert weakened == {*SHIPPED, *product((*LOOPS, "gemm"), ("gfx942", "gfx950"))}

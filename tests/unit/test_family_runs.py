"""The page of random problems of families, and what draws them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.families import FAMILIES, unsafe
from evidence import family_runs
from evidence.evidence_page import Table
from evidence.family_runs import HEADER, PAGE, FamilyRun


def rows() -> Mapping[str, tuple[str, ...]]:
    table = Table(HEADER, 1)
    table.read(PAGE)
    return {row[0]: row for row in table.rows}


def test_the_page_is_what_the_runs_write() -> None:
    table = Table(HEADER, 1)
    table.read(PAGE)
    assert PAGE.read_text(encoding="utf-8") == family_runs.page(table)
    assert rows().keys() <= FAMILIES.keys()


@pytest.mark.parametrize("name", rows())
def test_every_family_was_right(name: str) -> None:
    found = dict(zip(HEADER, rows()[name], strict=True))
    assert int(found["problems"]) >= 100
    assert found["kernels"] == found["PROVED"]
    assert int(found["weakened, unsafe"]) >= int(found["kernels"]) // 2
    for bad in ("wrong", "with findings", "outside", "not noticed"):
        assert found[bad] == "0", bad


def test_a_row_replaces_its_own_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family_runs, "PAGE", tmp_path / "page.md")
    family_runs.write(FamilyRun("b", kernels=2, proved=2, problems=9), ["a", "b"])
    family_runs.write(FamilyRun("a", kernels=1, problems=4, wrong=1), ["a", "b"])
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "3 kernels, 2 PROVED; 13 problems, 1 wrong" in page
    assert page.index("| a | 1 | 0 | 4 | 1 |") < page.index("| b | 2 | 2 | 9 | 0 |")
    assert not FamilyRun("a", kernels=1).good


@pytest.mark.parametrize("name", FAMILIES)
def test_every_kernel_can_be_drawn(name: str) -> None:
    family = FAMILIES[name]
    kinds = [family.kind_of(number) for number in range(family.KINDS)]
    assert {kind.arch for kind in kinds} <= {"gfx942", "gfx950"}
    assert all(
        kind.loop.meaning == family.kind_of(at).loop.meaning for at, kind in enumerate(kinds)
    )


def test_what_is_unsafe_is_emitted_all_the_same() -> None:
    """One wait of each few of a small kernel."""
    program = FAMILIES["rows"].kind_of(0).program()
    made = dict(unsafe(program, 3, 0))
    assert made
    assert all(kernel.emitted.name for kernel in made.values())

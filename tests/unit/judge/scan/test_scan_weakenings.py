"""A sample of the campaign in benchmarks: what a run shows wrong, the scan finds."""

from __future__ import annotations

import pytest

from benchmarks.scan_weakenings import KERNELS, weaken
from evidence.scan_corpus.page import page
from evidence.scan_corpus.readings import READ
from pipeloom.judge.scan import ScanKind


@pytest.mark.parametrize("name", ["by hand, one buffer", "by hand, two buffers"])
def test_weakened_kernels_are_found(name: str) -> None:
    kernel, start = KERNELS[name]()
    figures = weaken(name, kernel, start, most=0)
    assert figures.before == (0, 0)
    assert figures.wrong >= 10
    assert not figures.missed


@pytest.mark.parametrize("name", ["Triton softmax", "Triton reduction with atomics"])
def test_weakened_kernels_of_triton_are_found(name: str) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    kernel, start = KERNELS[name]()
    figures = weaken(name, kernel, start, most=6)
    assert figures.before[0] == 0
    assert figures.wrong >= 3
    assert not figures.missed


def test_a_weakened_kernel_of_ours_is_found() -> None:
    kernel, start = KERNELS["own single_buffer"]()
    figures = weaken("own single_buffer", kernel, start, most=5)
    assert figures.before == (0, 0)
    assert figures.wrong >= 4
    assert not figures.missed


def test_the_page_counts_what_the_rows_say() -> None:
    row = {
        "file": "gfx942/mla/k.co",
        "seconds": 1.5,
        "peak_mb": 100,
        "kernels": 2,
        "reasons": ["too large"],
        "not_known": [[["LDS accesses whose address is not known", 3]]],
        "findings": [
            {
                "kind": "register",
                "definite": True,
                "first": [0, "s_load_dword s1, s[2:3], 0x0"],
                "second": [8, "v_mov_b32 v1, s1"],
                "way": "every",
            }
        ],
    }
    lines = list(page([row], ""))
    assert "| gfx942/mla | 1 | 1 | 2 | 1.5 | 100 | 1 register | none | 3 |" in lines
    (read,) = (line for line in lines if line.startswith("| mla | register | s_load_dword"))
    assert "| 1 | 1 | 1, 0, 0 | true |" in read
    assert {kind for _, kind, _, _ in READ} <= {kind.value for kind in ScanKind}

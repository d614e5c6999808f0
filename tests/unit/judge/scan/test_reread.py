"""The second reading of findings, from text alone."""

from __future__ import annotations

import pytest

from evidence.scan_corpus.reread import read

FIRST, SECOND = "ds_read_b32 v1, v2", "ds_write_b32 v3, v4"


@pytest.mark.parametrize(
    ("between", "across", "way"),
    [
        ([], False, "every"),
        (["s_waitcnt lgkmcnt(0)"], False, "none"),
        (["s_waitcnt vmcnt(0)"], False, "every"),
        (["ds_read_b32 v5, v6", "s_waitcnt lgkmcnt(1)"], False, "none"),
        (["ds_read_b32 v5, v6", "s_waitcnt lgkmcnt(2)"], False, "every"),
        # Scalar loads count, but do not say that an older one is over.
        (["s_load_dword s1, s[2:3], 0x0", "s_waitcnt lgkmcnt(1)"], False, "every"),
        (["s_waitcnt lgkmcnt(0)"], True, "every"),
        (["s_waitcnt lgkmcnt(0)", "s_barrier"], True, "none"),
        (["s_barrier", "s_waitcnt lgkmcnt(0)"], True, "every"),
        (["s_cbranch_scc1 0xc", "s_waitcnt lgkmcnt(0)"], False, "some"),
    ],
)
def test_a_finding_is_read_again(between: list[str], across: bool, way: str) -> None:
    texts = [FIRST, *between, SECOND, "s_endpgm"]
    lines = [(4 * at, text) for at, text in enumerate(texts)]
    assert read(lines, 0, len(between) + 1, across) == way


def test_round_a_loop() -> None:
    lines = [(0, SECOND), (4, FIRST), (8, "s_cbranch_scc1 0x0"), (12, "s_endpgm")]
    assert read(lines, 1, 0, across=False) == "every"

"""``compare`` with hand-written loops: the figures of ``simulate_stream``, and a page of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bench_attention import PUBLISHED
from evidence.attention_streams import attention_stream
from pipeloom.drive.comparing import compare
from pipeloom.errors import SpecError
from pipeloom.judge.simulate import simulate_stream

LOOP = "R4 wl0 M8 B branch"
FOUR_CLUSTERS = Path(__file__).parents[3] / "examples" / "four_clusters.stream"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mine.stream"
    path.write_text(LOOP, encoding="utf-8")
    return str(path)


def test_a_stream_is_a_variant(file: str) -> None:
    found = compare([file, f"{file}:waves_per_simd=2,stagger=true,mfma=32x32x16_f16"])
    alone = simulate_stream(LOOP)
    both = simulate_stream(LOOP, mfma="32x32x16_f16", waves_per_simd=2, stagger=True)
    assert [row.cycles_per_trip for row in found.rows] == [
        round(trace.steady_cycles_per_iteration, 2) for trace in (alone, both)
    ]
    assert [row.barriers for row in found.rows] == [1, 1]
    first, second = found.pages(["one", "two"])
    assert [len(page["entries"]) for page in (first, second)] == [15, 15]
    assert (first["meta"]["waves"], second["meta"]["waves"]) == (4, 8)
    assert "mine.stream" in found.page()


@pytest.mark.parametrize("setting", ["waves_per_simd=9", "stagger=maybe", "sync=proven", "mfma"])
def test_what_a_stream_does_not_take_is_refused(file: str, setting: str) -> None:
    with pytest.raises(SpecError, match=setting.partition("=")[0]):
        compare([file, f"{file}:{setting}"])


def test_a_stream_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"nowhere\.stream"):
        compare([str(tmp_path / "nowhere.stream")] * 2)


def test_the_published_loop_of_the_examples_is_that_of_the_evidence() -> None:
    assert FOUR_CLUSTERS.read_text(encoding="utf-8").split() == attention_stream(PUBLISHED).split()

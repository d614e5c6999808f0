"""Published loops with known answers, read from the shared folder where it is present."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from benchmarks.loop_records import read_record
from pipeloom.order.modulo import check_modulo, solve_modulo

SHARED = Path(
    os.environ.get("PIPELOOM_SHARED", Path(__file__).resolve().parents[4].parent / "shared")
)
HLS = SHARED / "bench" / "hls_loops.jsonl.gz"
GPU = SHARED / "bench" / "gpu_loops.jsonl"
WHY = "the published loops are third-party data, not part of the repository; set PIPELOOM_SHARED"


@pytest.mark.skipif(not HLS.exists(), reason=WHY)
def test_sample_of_hls_loops_is_optimal_and_no_worse_than_the_reference() -> None:
    with gzip.open(HLS, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    proved = 0
    sample = records[:: len(records) // 60][:60]
    for record in sample:
        problem = read_record(record)
        result = solve_modulo(problem, time_limit=3)
        assert not check_modulo(problem, result.ii, result.starts)
        proved += result.proved
        reference = record["reference"]
        if reference is not None:
            assert result.ii <= reference["ii"]
            assert (result.res_mii, result.rec_mii) == (
                reference["res_mii"],
                reference["rec_mii"],
            )
            if reference["proven"]:
                assert result.ii == reference["ii"]
    assert len(sample) == 60
    assert proved >= 58


@pytest.mark.skipif(not GPU.exists(), reason=WHY)
def test_gpu_loops_reach_their_bound() -> None:
    records = [json.loads(line) for line in GPU.read_text(encoding="utf-8").splitlines()]
    assert len(records) == 9
    for record in records:
        result = solve_modulo(read_record(record))
        assert (result.ii, result.proved) == (record["min_ii"], True), record["name"]
        assert (result.res_mii, result.rec_mii) == (record["res_mii"], record["rec_mii"])

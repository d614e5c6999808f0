"""The loops of hipBLASLt's hand-written tables, each with the efficiency its author measured.

They are not part of this repository: ``bench/cms_loops.jsonl`` of the shared data gives each as an
instruction stream, its cycles (ideal matrix cycles over the stated efficiency, often rounded to a
whole per cent) and how far it can be trusted. Rows that wait for memory, and those whose table is
not the one that was measured, are shown and not compared. ``python -m evidence.cms_loops`` prints
the model beside them and what a fit predicts of the sources it has not seen.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from evidence.calibration import Comparison, LoopCase, compare
from evidence.leave_out import Evaluator, folds_by_source

SOURCE = "ROCm/rocm-libraries"


def shared_file(name: str) -> Path:
    """A file of the shared data: beside the repository, or where PIPELOOM_SHARED says."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    return Path(os.environ.get("PIPELOOM_SHARED", beside)) / "bench" / name


def cms_rows() -> list[dict[str, Any]]:
    """The records, in file order."""
    lines = shared_file("cms_loops.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def cms_case(row: dict[str, Any]) -> LoopCase:
    """One record as something to simulate; both code paths where there are two."""
    first = row.get("stream_ext", row["stream"])
    other = row.get("stream_ext_b", row.get("stream_b"))
    return LoopCase(
        id=row["id"],
        source=SOURCE,
        basis="given",
        stream=first,
        arch=row["arch"],
        op=row["mfma"],
        waves_per_simd=row["waves_per_simd"],
        stagger=False,
        simds=None,
        lds_conflict=1.0,
        measured=float(row["measured"]["cycles_per_iter"]),
        quantity="cycles per iteration",
        per=1,
        paths=() if other is None else (other,),
    )


def trusted(row: dict[str, Any]) -> bool:
    """Whether the measured number is that of the stream, and not that of the memory."""
    return bool(row["trust"] == "full")


def _summary(title: str, rows: list[Comparison]) -> str:
    errors = [abs(row.error) for row in rows]
    worst = max(rows, key=lambda row: abs(row.error))
    return (
        f"{title}: mean {100 * sum(errors) / len(errors):.1f} % over {len(rows)} loops,"
        f" worst {100 * worst.error:+.1f} % ({worst.case.id})"
    )


def main() -> None:
    """Print the comparison and the fits with one source left out each."""
    if not shared_file("cms_loops.jsonl").exists():
        sys.exit("the shared data is not here; set PIPELOOM_SHARED")
    exact: list[Comparison] = []
    extended: list[Comparison] = []
    for row in cms_rows():
        result = compare(cms_case(row))
        print(
            f"{row['id']:40} {row['trust']:14} {result.case.measured:8.1f} {result.modelled:8.1f}"
            f" {100 * result.error:+6.1f} %"
        )
        if trusted(row):
            (exact if row["stream_exact"] else extended).append(result)
    print(_summary("exact streams", exact))
    print(_summary("with loads of 4 bytes, or tf32's packs", extended))
    evaluator = Evaluator(cms_case(row) for row in cms_rows() if trusted(row))
    for fold in folds_by_source(evaluator):
        mean = sum(abs(error) for error in fold.errors.values()) / len(fold.errors)
        worst = max(fold.errors.values(), key=abs)
        source = evaluator.cases[fold.left_out[0]].source
        print(f"without {source}: mean {100 * mean:.1f} %, worst {100 * worst:+.1f} %", fold.fitted)


if __name__ == "__main__":
    main()

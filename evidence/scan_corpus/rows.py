"""Scan all code objects under a folder, one row of JSON each; run again, it goes on where it was.

    python -m evidence.scan_corpus.rows FOLDER ROWS.jsonl [--part 0/2]

Kernels are taken in an order that spreads families, so that a run that was stopped is a sample of
all. Seconds are those of a core; the peak is that of the process so far.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import time
from pathlib import Path
from typing import Any

from pipeloom.drive.scanning import scan_file
from pipeloom.judge.scan import KernelScan, ScanFinding, ScanPlace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--part", default="0/1")
    arguments = parser.parse_args()
    number, parts = (int(word) for word in arguments.part.split("/"))
    files = sorted(arguments.folder.rglob("*.co"), key=_spread)
    done = set()
    if arguments.rows.exists():
        lines = arguments.rows.read_text(encoding="utf-8").splitlines()
        done = {json.loads(line)["file"] for line in lines}
    with arguments.rows.open("a", encoding="utf-8") as stream:
        for path in files[number::parts]:
            name = path.relative_to(arguments.folder).as_posix()
            if name not in done:
                began = time.process_time()
                scans = scan_file(str(path))
                seconds = time.process_time() - began
                stream.write(json.dumps(_row(name, scans, seconds)) + "\n")
                stream.flush()


def _spread(path: Path) -> str:
    return hashlib.sha256(path.name.encode()).hexdigest()


def _row(name: str, scans: list[KernelScan], seconds: float) -> dict[str, Any]:
    return {
        "file": name,
        "seconds": round(seconds, 3),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "kernels": len(scans),
        "instructions": sum(scan.instructions for scan in scans),
        "reasons": [scan.reason for scan in scans if scan.reason],
        "not_known": [list(scan.not_known) for scan in scans],
        "findings": [_finding(f) for scan in scans for f in scan.findings if f.kind.is_defect],
        "notes": sum(not f.kind.is_defect for scan in scans for f in scan.findings),
    }


def _finding(finding: ScanFinding) -> dict[str, Any]:
    return {
        "kind": finding.kind.value,
        "definite": finding.definite,
        "first": _place(finding.first),
        "second": _place(finding.second),
        "where": finding.where,
        "counter": finding.counter,
        "others": len(finding.others),
    }


def _place(place: ScanPlace | None) -> list[Any] | None:
    return None if place is None else [place.pc, place.text]


if __name__ == "__main__":
    main()

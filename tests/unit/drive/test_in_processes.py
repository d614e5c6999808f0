"""Many files in processes: the order of results, and a file that ends the process that reads it."""

from __future__ import annotations

import os
from pathlib import Path

from pipeloom.drive.in_processes import in_processes


def length(path: str) -> int:
    """In a worker; a file that is not there ends it without a word."""
    if not os.path.exists(path):
        os._exit(9)
    return os.path.getsize(path)


def died(path: str) -> int:
    return -1


def test_results_come_in_order_and_only_the_guilty_one_is_lost(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{size}") for size in range(6)]
    for size, path in enumerate(paths):
        if size not in (1, 5):
            Path(path).write_bytes(b"x" * size)
    assert list(in_processes(length, paths, 2, died)) == [0, -1, 2, 3, 4, -1]
    assert list(in_processes(length, [], 2, died)) == []

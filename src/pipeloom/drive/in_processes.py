"""One function over many files in processes: results in order, and one that dies ends no other.

for report in in_processes(scan_file, paths, workers=4, died=unjudged): ...
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_processes(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int,
    died: Callable[[Item], Result],
) -> Iterator[Result]:
    """The result for each item, in their order, whatever the number of workers.

    Where a process dies, all that were waiting lose theirs. The first of them is tried alone, to
    learn whether it is to blame (``died`` then stands for its result), and the others again.
    """
    waiting = list(items)
    while waiting:
        done = 0
        for result in _until_one_dies(function, waiting, workers):
            done += 1
            yield result
        waiting = waiting[done:]
        if waiting:
            alone = list(_until_one_dies(function, waiting[:1], 1))
            yield alone[0] if alone else died(waiting[0])
            waiting = waiting[1:]


def _until_one_dies(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int
) -> Iterator[Result]:
    # Not forked: a fork of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=_leave_signals)
    try:
        for future in [pool.submit(function, item) for item in items]:
            try:
                yield future.result()
            except BrokenProcessPool:
                return
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _leave_signals() -> None:
    """In a worker: the parent hears Ctrl-C, and ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

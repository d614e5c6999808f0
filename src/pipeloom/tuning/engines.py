"""Who times blocks: this process, processes of this machine, or the nodes of a Ray cluster.

A job is a pure function of its key, so it does not matter who does it, or that it is done twice
because someone died. Every engine leaves its results in the store of the one who asked.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from pipeloom.drive.gemm import GemmSpec
from pipeloom.drive.store import Store, version
from pipeloom.errors import ConfigError, InternalError
from pipeloom.judge.simulate.whole_gpu import BlockCost
from pipeloom.tuning.candidates import entries, time_block

if TYPE_CHECKING:  # a search that only reads the store starts no process, and needs none of these
    from concurrent.futures import Future, ProcessPoolExecutor

Done = tuple[GemmSpec, BlockCost | None]
MOST_DEATHS = 3
"""Of workers with the same job: more are the job's fault."""


class Engine(Protocol):
    """Takes jobs and gives them back done, in any order."""

    @property
    def workers(self) -> int:
        """How many jobs it does at a time."""
        ...

    def submit(self, job: GemmSpec) -> None:
        """Begin a job, or queue it."""
        ...

    def next(self) -> Done:
        """Wait for one to be done."""
        ...

    def stop(self) -> None:
        """Give up what is not done; the engine takes no more jobs."""
        ...


class Inline:
    """This process, one job at a time."""

    workers = 1

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs: list[GemmSpec] = []

    def submit(self, job: GemmSpec) -> None:
        """Queue it."""
        self._jobs.append(job)

    def next(self) -> Done:
        """Do the oldest."""
        job = self._jobs.pop(0)
        return job, time_block(job, self._store)

    def stop(self) -> None:
        """Forget what is queued."""
        self._jobs.clear()


class Processes:
    """Processes of this machine; one that is killed is replaced, and its job done again."""

    def __init__(self, store: Store, workers: int | None = None) -> None:
        self._store = store
        self._count = workers or os.cpu_count() or 1
        self._deaths: dict[GemmSpec, int] = {}
        self._pool = self._make_pool()
        self._futures: dict[Future[BlockCost | None], GemmSpec] = {}

    @property
    def workers(self) -> int:
        """As told, else one per core."""
        return self._count

    def submit(self, job: GemmSpec) -> None:
        """To a process that is free."""
        with _deaf_children():
            self._futures[self._pool.submit(time_block, job, self._store)] = job

    def next(self) -> Done:
        """The first that is done."""
        from concurrent.futures import FIRST_COMPLETED, wait
        from concurrent.futures.process import BrokenProcessPool

        while True:
            ready, _ = wait(self._futures, return_when=FIRST_COMPLETED)
            future = next(future for future in self._futures if future in ready)
            job = self._futures.pop(future)
            try:
                return job, future.result()
            except BrokenProcessPool:
                self._replace([job, *self._futures.values()])

    def stop(self) -> None:
        """End the processes now: what they have kept is kept."""
        processes = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()

    def _make_pool(self) -> ProcessPoolExecutor:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._count, context, initializer=_follow_parent)

    def _replace(self, jobs: list[GemmSpec]) -> None:
        for job in jobs:
            self._deaths[job] = self._deaths.get(job, 0) + 1
            if self._deaths[job] > MOST_DEATHS:
                raise InternalError(f"workers die of {job.block} for {job.arch}: is memory short?")
        self._pool.shutdown(wait=False)
        self._pool = self._make_pool()
        self._futures = {}
        for job in jobs:
            self.submit(job)


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Who is started here does not hear Ctrl-C, which reaches the whole group: the parent decides.

    From its first instruction on, since a signal that is blocked stays so in what is started.

    Nor is the start broken off, which would leave a process without its task: another thread may
    take the signal, and Python then interrupts the main one. It is heard when all are started.
    """
    heard: list[int] = []
    usual = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            usual[number] = signal.signal(number, lambda sent, _: heard.append(sent))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in usual.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for sent in heard[:1]:
            signal.raise_signal(sent)


def _follow_parent() -> None:
    """Where the parent is killed, so is this process."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker of a pool waits for its next job for ever; what it has kept is kept."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class OnRay:
    """The nodes of a Ray cluster: ``address`` names it, or a local one is started.

    A job whose node dies is done again on another. Results, with their programs, come back into
    this store; a node with other sources is refused, since it would time something else.
    """

    def __init__(
        self, store: Store, address: str | None = None, workers: int | None = None
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise ConfigError(
                "--on ray needs Ray, which is not installed",
                hint="pip install 'pipeloom[ray]', or leave out --on ray",
                field="on",
            ) from error
        self._ray = ray
        self._store = store
        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False, configure_logging=False)
        cores = int(ray.cluster_resources().get("CPU", 1))
        self._count = workers or max(1, cores)
        self._task = ray.remote(max_retries=-1, num_cpus=1)(_on_node)
        self._flying: dict[Any, GemmSpec] = {}

    @property
    def workers(self) -> int:
        """As told, else one per core of the cluster."""
        return self._count

    def submit(self, job: GemmSpec) -> None:
        """To whichever node Ray chooses."""
        self._flying[self._task.remote(job)] = job

    def next(self) -> Done:
        """The first that is done, its results kept here."""
        ready, _ = self._ray.wait(list(self._flying), num_returns=1)
        job = self._flying.pop(ready[0])
        made_by, cost, found = self._ray.get(ready[0])
        if made_by != version():
            raise ConfigError(
                "a node of the cluster has another pipeloom than this one",
                hint="install the same everywhere",
                field="on",
            )
        for key, entry in found.items():
            self._store.write(key, entry)
        return job, cost

    def stop(self) -> None:
        """Cancel what is not done; the cluster goes on."""
        for reference in self._flying:
            self._ray.cancel(reference, force=True)
        self._flying.clear()


def _on_node(job: GemmSpec) -> tuple[str, BlockCost | None, dict[str, dict[str, Any]]]:
    """On a node: time the block there; what came out, and which pipeloom said so."""
    store = Store.usual()
    return version(), time_block(job, store), entries(job, store)

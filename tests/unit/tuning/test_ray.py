"""Blocks timed on a Ray cluster of two nodes, one of which is killed: nothing lost, nothing else.

Ray is an extra (``pip install 'pipeloom[ray]'``); without it these are skipped.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.drive.store import Store
from pipeloom.judge.simulate.whole_gpu import Block
from pipeloom.machine.gpus import gpu_for
from pipeloom.tuning.candidates import block_spec, entries, known_block, time_block
from pipeloom.tuning.engines import OnRay
from pipeloom.tuning.search import tune

ray = pytest.importorskip("ray", reason="Ray is an extra: pip install 'pipeloom[ray]'")

JOBS = [
    block_spec("gfx950", "bf16", Block(m, n, k))
    for m, n, k in ((32, 32, 64), (32, 32, 128), (32, 64, 64), (64, 32, 64))
]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes with a core each; what they time they keep for themselves."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    monkeypatch.setenv("PIPELOOM_STORE", str(tmp_path / "nodes"))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.second = made.add_node(num_cpus=1)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


def test_a_node_is_killed(cluster: Any, tmp_path: Path) -> None:
    store = Store(tmp_path / "mine")
    engine = OnRay(store, cluster.address)
    assert engine.workers == 2
    for job in JOBS:
        engine.submit(job)
    done = dict([engine.next()])
    cluster.remove_node(cluster.second, allow_graceful=False)
    while len(done) < len(JOBS):
        job, cost = engine.next()
        done[job] = cost
    engine.stop()
    assert done.keys() == set(JOBS)
    own = Store(tmp_path / "alone")
    for job in JOBS[:2]:
        assert done[job] == time_block(job, own) == known_block(job, store)[1]
        assert entries(job, store) == entries(job, own)


def test_tuned_on_a_cluster_as_alone(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeloom.tuning import candidates

    monkeypatch.setattr(candidates, "SIDES", (32,))
    shapes, gpu = [GemmProblem(64, 64, 512)], gpu_for("MI355X")
    mine = Store(tmp_path / "mine")
    found = tune(shapes, gpu, engine=lambda: OnRay(mine, cluster.address), store=mine)
    assert found == tune(shapes, gpu, store=Store(tmp_path / "alone"))
    started = time.monotonic()
    assert tune(shapes, gpu, store=mine) == found
    assert time.monotonic() - started < 5

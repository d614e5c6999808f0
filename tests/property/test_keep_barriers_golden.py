"""Every canonical golden schedule with its own barriers: proved, or refused for a clear reason."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pipeloom import CompiledSchedule, OrderError, Phase, build_schedule
from pipeloom.drive.programs import verify
from pipeloom.reference.lift import lift
from pipeloom.reference.ops import OpRole, OpTag
from pipeloom.reference.resync import synchronize

GOLDEN = Path(__file__).parents[1] / "golden" / "schedules.jsonl.gz"
with gzip.open(GOLDEN, "rt", encoding="utf-8") as stream:
    CASES = [json.loads(line) for line in stream]
CANONICAL: dict[str, Any] = {
    case["case"].removeprefix("canonical/"): case["spec"]
    for case in CASES
    if case["case"].startswith("canonical/")
}
WITHOUT_BARRIERS = {"ping_pong/039", "ping_pong/051"}
"""Their loops have no barrier at all (minimal_barriers): nothing can order the two wave groups."""


def frame(compiled: CompiledSchedule) -> list[str]:
    """The loop without waits and loads: what repair must leave alone."""
    waits = (OpTag.WAIT_VM, OpTag.WAIT_LGKM)
    entries = [e.op for e in compiled.kernel if e.op.tag not in waits]
    return [str(op) for op in entries if op.role is not OpRole.GLOBAL_LOAD]


def loads(compiled: CompiledSchedule, phase: Phase) -> list[str]:
    return sorted(str(e.op) for e in compiled.phase(phase) if e.op.role is OpRole.GLOBAL_LOAD)


def test_the_set_is_whole() -> None:
    kernels = [name.split("/")[0] for name in CANONICAL]
    assert (kernels.count("ping_pong"), kernels.count("four_wave")) == (52, 37)
    for name in WITHOUT_BARRIERS:
        assert CANONICAL[name]["schedule_config"]["minimal_barriers"]


@pytest.mark.parametrize("name", [*CANONICAL])
def test_canonical_schedules_keep_their_barriers(name: str) -> None:
    reference = build_schedule(CANONICAL[name])
    if name in WITHOUT_BARRIERS:
        assert not reference.counts(Phase.KERNEL).barriers
        with pytest.raises(OrderError, match="waits alone cannot save this order"):
            synchronize(reference, reorder=True, keep_barriers=True)
        return
    fixed = synchronize(reference, reorder=True, keep_barriers=True)
    assert verify(lift(fixed)).proved
    assert frame(fixed) == frame(reference)
    for phase in Phase:
        assert loads(fixed, phase) == loads(reference, phase)

"""``synchronize``: waits and barriers from the data flow alone, and a proof of the result.

The order of the work stays. From it follow the demands (``flow``), from those the fewest barriers
(``levels``), from those the loosest waits (``replay``); what turns out to be covered by others is
dropped again (``place``). In the result no barrier can be removed and no wait loosened by one entry
without losing the proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeloom.checks import check_instance
from pipeloom.errors import OrderError
from pipeloom.program import Program, SyncMethod
from pipeloom.sync.flow import Flow, describe, flow
from pipeloom.sync.place import place_synchronisation, place_waits
from pipeloom.sync.replay import Bench
from pipeloom.sync.script import Scripts
from pipeloom.sync.touches import Touches
from pipeloom.sync.walk import sample_runs

PROVEN = SyncMethod.PROVEN
REPAIRED = SyncMethod.REPAIRED


def synchronize(
    program: Program,
    *,
    method: SyncMethod = PROVEN,
    barrier_gaps: Mapping[str, Sequence[int]] | None = None,
) -> Program:
    """``program`` with its work in order, and new waits and barriers; the result is PROVED.

    PROVEN derives both, with the fewest barriers in loops; barriers with a label (a stagger) are a
    group's own and stay. REPAIRED keeps all barriers and derives the waits.

    ``barrier_gaps`` proposes where the barriers of loops stand: by section name, the numbers of the
    work steps that they precede. A schedule that knows its times knows where a barrier stalls
    nobody. The proposal is taken if waits can make it sound.

    An order that no synchronisation can save raises ``OrderError``. Fences and priorities stay
    where they are among the work.
    """
    check_instance("synchronize", "program", program, Program)
    scripts = Scripts.of(program, keep_barriers=method is REPAIRED)
    touches = Touches(program)
    flows = [flow(scripts, touches, run) for run in sample_runs(scripts)]
    for found in flows:
        if found.conflicts:
            raise _unsavable(scripts, found)
    bench = Bench(scripts, flows)
    if method is REPAIRED:
        sync = place_waits(bench)
    else:
        sync = place_synchronisation(bench, barrier_gaps or {})
    provenance = replace(program.provenance, synchronised=method)
    return program.with_groups(scripts.assemble(sync), provenance)


def _unsavable(scripts: Scripts, found: Flow) -> OrderError:
    conflict = found.conflicts[0]
    early, late = (
        describe(scripts, found.run.walks[g].events[n]) for g, n in (conflict.early, conflict.late)
    )
    return OrderError(
        f"no synchronisation can save this order: {early} comes before {late}: {conflict.what}",
        hint="let the second come first",
        field="order",
    )

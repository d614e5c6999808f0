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
from pipeloom.errors import InternalError, OrderError
from pipeloom.judge.verify import FindingKind, verify
from pipeloom.program import Program, SyncMethod
from pipeloom.program.vocabulary import VOCABULARY, Vocabulary
from pipeloom.sync.keep import mended
from pipeloom.sync.nearest_order import reordered
from pipeloom.sync.place import place_synchronisation, place_waits
from pipeloom.sync.strip import stripped
from pipeloom.sync.study import Change, Study, unsavable

ORDERED = frozenset({FindingKind.RAW, FindingKind.WAR, FindingKind.BARRIER, FindingKind.ENCODING})
"""What synchronisation answers for; registers too, but those may also be filled by wrong work."""
ANY = "no synchronisation can save this order"
PROVEN = SyncMethod.PROVEN
REPAIRED = SyncMethod.REPAIRED


def synchronize(
    program: Program,
    *,
    method: SyncMethod = PROVEN,
    reorder: bool = False,
    barrier_gaps: Mapping[str, Sequence[int]] | None = None,
    prove: bool = True,
    ops: Vocabulary = VOCABULARY,
) -> Program:
    """``program`` with its work in order, and new waits and barriers; the result is PROVED.

    PROVEN derives both, with the fewest barriers in loops; barriers with a label (a stagger) are a
    group's own and stay. REPAIRED keeps all barriers, which may also set the pace, and derives the
    waits.

    ``barrier_gaps`` proposes where the barriers of loops stand: by section name, the numbers of the
    work steps that they precede (``loop@1`` for the second group alone). A schedule that knows its
    times knows where a barrier stalls nobody. The proposal is taken if waits can make it sound.

    An order that no synchronisation (or none with these barriers) can save raises ``OrderError``;
    with ``reorder`` the fewest steps move instead, and the provenance says which. Fences and
    priorities stay where they are among the work. What was claimed of waits and barriers that it
    had, and now has others, is dropped from the provenance. Without ``prove``, which is for
    searches that prove only what they keep, the result is not checked. ``ops`` are the verifier's.
    """
    check_instance("synchronize", "program", program, Program)
    study = Study.of(stripped(program, keep_barriers=method is REPAIRED))
    if method is REPAIRED:
        study, changes = mended(study, reorder)
        sync = place_waits(study.bench)
    else:
        study, changes = _legal(study, reorder)
        sync = place_synchronisation(study.bench, {} if changes else barrier_gaps or {})
    groups = study.scripts.assemble(sync)
    known = program.provenance
    if known.synchronised is not SyncMethod.GIVEN and groups != program.groups:
        known = known.without_figures
    provenance = replace(
        known,
        synchronised=method,
        moved=(*known.moved, *(c.move for c in changes if c.move is not None)),
        barriers_added=known.barriers_added + sum(c.move is None for c in changes),
        notes=(*known.notes, *_notes(changes)),
    )
    result = program.with_groups(groups, provenance)
    if prove:
        _check(result, ops)
    return result


def _check(program: Program, ops: Vocabulary) -> None:
    verdict = verify(program, ops=ops)
    if verdict.proved:
        return
    worst = verdict.findings[0]
    if worst.kind in ORDERED:
        raise InternalError(f"synchronised program is not proved: {worst.describe()}")
    raise OrderError(
        f"synchronisation cannot repair the sums: {worst.where}: {worst.why}",
        hint="the work itself is wrong: a step, a part or a store is missing or for another value",
    )


def _notes(changes: Sequence[Change]) -> tuple[str, ...]:
    return ("reordered: " + "; ".join(c.words for c in changes),) if changes else ()


def _legal(study: Study, reorder: bool) -> tuple[Study, list[Change]]:
    """The study of the nearest legal order; an error unless ``reorder``."""
    conflict = study.conflict()
    if conflict is None:
        return study, []
    scripts, changes = reordered(study.scripts, study.flows)
    if not reorder:
        told = "; ".join(c.words for c in changes) or "none within an iteration"
        raise unsavable(ANY, conflict, f"nearest legal order: {told}. reorder=True applies it")
    moved = Study.of(scripts)
    still = moved.conflict()
    if still is not None:
        raise unsavable(ANY, still, "no order within an iteration is legal either")
    return moved, changes

"""The kernel of a check with what is missing put in, or with what is needless taken out."""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.drive.checking import Checked, check_start
from pipeloom.drive.code_objects import ASSEMBLY
from pipeloom.drive.kernel_files import KernelFile, assembled, open_kernel
from pipeloom.errors import OrderError, SpecError
from pipeloom.judge.check.missing_sync import pruned, repair
from pipeloom.judge.check.prepared import Prepared
from pipeloom.judge.check.retirement import SyncPlan
from pipeloom.judge.check.verdict import CheckKind, CheckStatus
from pipeloom.judge.emulate import EmulateError, check_hazards
from pipeloom.judge.emulate.disassembly import instruction_text
from pipeloom.machine.wait_rules import Basis
from pipeloom.machine_code.rewrite import Edit, rewrite_code, rewrite_text
from pipeloom.notebook import fragment


@dataclass(frozen=True, slots=True, eq=False)
class Corrected:
    """Assembly, what was changed in it, and the verdict on it."""

    text: str
    """The corrected assembly."""
    changes: tuple[str, ...]
    """Each change in words, in the order of the code."""
    checked: Checked
    """The check of the corrected kernel."""

    def __repr__(self) -> str:
        verdict = self.checked.verdict
        return (
            f"<Corrected {verdict.kernel} ({verdict.arch}): {len(self.changes)} changes, "
            f"{verdict.summary()}>"
        )

    def _repr_html_(self) -> str:
        """For notebooks: what was changed."""
        verdict = self.checked.verdict
        title = f"{verdict.kernel} ({verdict.arch})"
        return fragment(title, verdict.summary(), ("change",), [(one,) for one in self.changes])


def correct(checked: Checked) -> Corrected:
    """Add what is missing or, where nothing is, take out what is not needed; judge the result.

    The result is judged within the limits of the first check, each time anew.

    Raises ``OrderError`` where no added wait or barrier orders all accesses, or where a finding is
    none of order. The text is that of the file, or made from the code object.

    Args:
        checked: What ``check`` returned.
    """
    found, verdict = checked.study, checked.verdict
    if found is None or verdict.status is CheckStatus.NOT_JUDGED:
        raise OrderError(
            f"{verdict.kernel} was not judged: {verdict.reason}",
            hint="only what is judged is fixed",
        )
    if verdict.findings:
        kinds = {CheckKind.RAW, CheckKind.WAR, CheckKind.WAW, CheckKind.REGISTER}
        other = [f for f in verdict.findings if f.kind not in {*kinds, CheckKind.WAIT_STATES}]
        if other:
            raise OrderError(
                f"{verdict.kernel} has a finding that no wait mends: {other[0].kind.value}, "
                f"{other[0].second}: {other[0].why}",
                hint="mend that first",
            )
        sync = repair(found)
        if sync is None:
            raise OrderError(
                f"no wait or barrier was found that orders all accesses of {verdict.kernel}",
                hint="an access must move: see the findings",
            )
        return _repaired(checked, found, sync)
    if checked.loose is None:
        raise OrderError(
            f"nobody looked for waits of {verdict.kernel} that are not needed",
            hint="check it with look_for_needless, and with limits that leave time for it",
        )
    return _judged(checked, found, _edits(found, checked.loose, {}))


def _repaired(checked: Checked, found: Prepared, sync: SyncPlan) -> Corrected:
    """With what is missing put in, and nothing that the rest makes needless."""
    states = _missing_states(checked)
    first = _judged(checked, found, _edits(found, sync, states))
    after = first.checked.study
    if after is None or first.checked.verdict.status is not CheckStatus.PROVED:
        return first
    nops = {at for at, step in enumerate(found.program) if step.instruction.pc in states}
    less = pruned(found, sync, after, nops)
    return first if less == sync else _judged(checked, found, _edits(found, less, states))


def _judged(checked: Checked, found: Prepared, edits: dict[int, Edit]) -> Corrected:
    """The kernel with these edits, assembled and judged."""
    file = checked.file
    text, data = assembled(_text(file, edits))
    again = open_kernel(data, file.kernel.name)
    rewritten = KernelFile(again.kernel, data, file.name, text)
    judged = check_start(rewritten, checked.start, checked.effort)
    return Corrected(text, _changes(edits, found), judged)


def _text(file: KernelFile, edits: dict[int, Edit]) -> str:
    if file.text:
        try:
            return rewrite_text(file.kernel, file.text, edits)
        except EmulateError:
            # Macros: the lines of the text are not those of the code.
            pass
    return rewrite_code(file.kernel, edits, instruction_text)


def _missing_states(checked: Checked) -> dict[int, int]:
    return {
        hazard.pc: hazard.missing
        for hazard in check_hazards(checked.file.kernel)
        if hazard.missing and hazard.basis is Basis.REQUIRED
    }


def _edits(found: Prepared, sync: SyncPlan, states: dict[int, int]) -> dict[int, Edit]:
    edits: dict[int, Edit] = {}
    for at, step in enumerate(found.program):
        pc = step.instruction.pc
        before: list[str] = []
        if at in sync.added:
            counts, barrier = sync.added[at]
            before += [counts.text()] * counts.waits + ["s_barrier"] * barrier
        if pc in states:
            before.append(f"s_nop {states[pc] - 1}")
        instead = None
        if at in found.sync.barriers and at not in sync.barriers:
            instead = ""
        elif at in found.sync.waits and sync.waits[at] != found.sync.waits[at]:
            instead = sync.waits[at].text() if sync.waits[at].waits else ""
        if before or instead is not None:
            edits[pc] = Edit(tuple(before), instead)
    return edits


def _changes(edits: dict[int, Edit], found: Prepared) -> tuple[str, ...]:
    words = {step.instruction.pc: instruction_text(step.instruction) for step in found.program[:-1]}
    lines = []
    for pc, edit in sorted(edits.items()):
        lines += [f"before pc {pc:#x} ({words[pc]}): {one}" for one in edit.before]
        if edit.instead is not None:
            lines.append(f"pc {pc:#x}: {words[pc]} -> {edit.instead or 'nothing'}")
    return tuple(lines)


def check_path(path: str) -> None:
    """The fixed kernel is assembly."""
    if not path.endswith(ASSEMBLY):
        raise SpecError(f"{path} would hold assembly", hint="give it a name that ends in .s")

"""An independent judge of wait states: reads assembly text, knows nothing of how it was made.

    findings = check_hazards(emitted.text, "gfx950")
    [str(f) for f in findings]     # line 412: v_accvgpr_read_b32 v0, a0 lacks 3 wait state(s): ...

The rules are those of ``pipeloom.judge.wait_states``, a table written separately from ``hazards``,
with the source of each row; registers, unit and passes come from the text by parsing, not from our
instruction table. An instruction that the table does not know is a finding too.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.checks import nearest
from pipeloom.judge.wait_states import Target, judge, read_assembly
from pipeloom.write.faults import EmitError, HazardError


@dataclass(frozen=True, slots=True)
class HazardFinding:
    """An instruction that issues too early, or (``missing`` is 0) that the judge cannot judge."""

    line: int
    text: str
    missing: int
    reason: str
    register: str
    source: str = ""
    """Where the rule is written; see ``pipeloom.judge.wait_states.rules``."""

    def __str__(self) -> str:
        if not self.missing:
            return f"line {self.line}: {self.text}: {self.reason}"
        where = f" ({self.register})" if self.register else ""
        return (
            f"line {self.line}: {self.text} lacks {self.missing} wait state(s): {self.reason}"
            f"{where}"
        )


def judged_as(arch: str) -> Target:
    """The judge's name of a chip; raises ``EmitError`` listing the known ones."""
    known = {target.value: target for target in Target}
    if arch not in known:
        raise EmitError(
            f"target {arch!r} is not known to the emitter",
            hint=nearest(arch, known),
            field="target",
        )
    return known[arch]


def check_hazards(text: str, target: str) -> tuple[HazardFinding, ...]:
    """Every instruction of the text that lacks wait states or has no known rule, in text order.

    Follows every branch; of several dangers the worst is named.
    """
    program, entries = read_assembly(text)
    found = judge(program, judged_as(target), entries)
    return tuple(
        HazardFinding(
            program[f.at].place, program[f.at].text, f.missing, f.reason, f.register, f.source
        )
        for f in found
    )


def require_no_hazards(text: str, target: str) -> None:
    """Raise ``HazardError`` naming the first instruction that issues too early."""
    findings = check_hazards(text, target)
    if findings:
        raise HazardError(
            f"{findings[0]}" + (f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""),
            hint="insert_wait_states adds the s_nop that a kernel needs",
        )

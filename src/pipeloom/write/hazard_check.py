"""An independent judge of wait states: reads assembly text, knows nothing of how it was made.

    findings = check_hazards(emitted.text, "gfx950")
    [str(f) for f in findings]     # line 412: v_accvgpr_read_b32 v0, a0 lacks 3 wait state(s): ...

The judge is that of ``pipeloom.judge.wait_states``, which applies the chip's rules to registers,
units and passes that it parses from the text, not to our instruction table. An instruction that it
does not know is a finding too.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pipeloom.judge.wait_states import Shortfall, judge, read_assembly
from pipeloom.machine.chips import target_for
from pipeloom.machine.target import Target
from pipeloom.write.faults import HazardError


@dataclass(frozen=True, slots=True)
class HazardFinding(Shortfall):
    """What the judge found, with the line of the text."""

    line: int = 0
    text: str = ""

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}{'' if self.missing else ':'} {self.describe()}"


def check_hazards(text: str, target: Target | str) -> tuple[HazardFinding, ...]:
    """Every instruction of the text that lacks wait states or has no known rule, in text order.

    Follows every branch; of several dangers the worst is named.
    """
    program, entries = read_assembly(text)
    found = judge(program, target_for(target) if isinstance(target, str) else target, entries)
    return tuple(
        HazardFinding(**asdict(one), line=program[one.at].place, text=program[one.at].text)
        for one in found
    )


def require_no_hazards(text: str, target: Target | str) -> None:
    """Raise ``HazardError`` naming the first instruction that issues too early."""
    findings = check_hazards(text, target)
    if findings:
        raise HazardError(
            f"{findings[0]}" + (f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""),
            hint="insert_wait_states adds the s_nop that a kernel needs",
        )

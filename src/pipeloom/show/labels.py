"""Short labels for ops, as every table shows them.

load A[1,0] k+1     global load of operand A into stage 1, half 0, of the K tile after next
frag B[0,1]         fragment load from stage 0, subtile 1
mma (0,1)           MMA of row 0, column 1
vmcnt(4)            a wait
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.ops import OpDesc, OpRole, OpTag

_FRAMEWORK = {
    OpTag.BARRIER: "barrier",
    OpTag.SCHEDULE_BARRIER: "fence",
    OpTag.NONE: "none",
}
_VERBS = {
    OpRole.GLOBAL_LOAD: "load",
    OpRole.SHARED_STORE: "store",
    OpRole.FRAGMENT_LOAD: "frag",
    OpRole.COMPUTE: "mma",
    OpRole.VALU_COMPUTE: "valu",
}
HINT_GROUPS = ("ds_read", "ds_write", "vmem_read", "mfma")
STYLES: Mapping[OpRole, str] = MappingProxyType(
    {
        OpRole.GLOBAL_LOAD: "magenta",
        OpRole.SHARED_STORE: "blue",
        OpRole.FRAGMENT_LOAD: "cyan",
        OpRole.COMPUTE: "bold green",
        OpRole.VALU_COMPUTE: "green",
        OpRole.SYNC: "yellow",
        OpRole.FENCE: "bright_black",
        OpRole.NONE: "default",
    }
)


class Labels:
    """Labels for the ops of one schedule; learns from its body which tag is which operand."""

    def __init__(self, compiled: CompiledSchedule) -> None:
        self._channels = {op.tag: op.channel for op in compiled.body}

    def of(self, op: OpDesc) -> str:
        """The label of one op."""
        if op.is_framework:
            return _framework_label(op)
        verb = _VERBS.get(op.role, f"op{op.tag}")
        if op.role is OpRole.COMPUTE:
            return f"{verb} ({op.stage},{op.subtile})"
        channel = op.channel if op.channel >= 0 else self._channels.get(op.tag, -1)
        operand = {0: "A", 1: "B"}.get(channel, "")
        multiple = op.k_offset.multiple
        offset = "" if multiple is None else f" k{multiple:+d}"
        return f"{verb} {operand}[{op.stage},{op.subtile}]{offset}"


def _framework_label(op: OpDesc) -> str:
    tag = OpTag(op.tag)
    if tag is OpTag.WAIT_VM:
        return f"vmcnt({op.wait_value})"
    if tag is OpTag.WAIT_LGKM:
        return f"lgkmcnt({op.wait_value})"
    if tag is OpTag.SET_PRIO:
        return f"prio({op.wait_value})"
    if tag is OpTag.SCHED_GROUP_BARRIER:
        known = op.subtile < len(HINT_GROUPS)
        group = HINT_GROUPS[op.subtile] if known else f"group{op.subtile}"
        return f"{group}x{op.wait_value}"
    return _FRAMEWORK[tag]

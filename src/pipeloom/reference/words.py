"""A compiled schedule in words: its ops, its tile, its knobs.

load A[1,0] k+1     global load of operand A into stage 1, half 0, of the K tile after next
frag B[0,1]         fragment load from stage 0, subtile 1
mma (0,1)           MMA of row 0, column 1
vmcnt(4)            a wait

256x256x64 bf16                                    the tile it was compiled for
no tile: 4 + 4 vmcnt entries per load              the target profile's counts stand in for one
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum

from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.config import PipelineConfig
from pipeloom.reference.ops import OpDesc, OpRole, OpTag, Phase
from pipeloom.reference.schedule_config import ScheduleConfig

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
_ELEMENTS = {1: "fp8", 2: "bf16", 4: "f32"}


class Labels:
    """Labels for the ops of one schedule; learns from its body which tag is which operand."""

    def __init__(self, compiled: CompiledSchedule) -> None:
        self._channels = {op.tag: op.channel for op in compiled.body}

    def of(self, op: OpDesc, *, offset: bool = True) -> str:
        """The label of one op; without ``offset`` it leaves out which K tile, as declared."""
        if op.is_framework:
            return _framework_label(op)
        verb = _VERBS.get(op.role, f"op{op.tag}")
        if op.role is OpRole.COMPUTE:
            return f"{verb} ({op.stage},{op.subtile})"
        channel = op.channel if op.channel >= 0 else self._channels.get(op.tag, -1)
        operand = {0: "A", 1: "B"}.get(channel, "")
        multiple = op.k_offset.multiple
        tile = "" if multiple is None or not offset else f" k{multiple:+d}"
        return f"{verb} {operand}[{op.stage},{op.subtile}]{tile}"


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


def tile_text(compiled: CompiledSchedule, elements: str | None = None) -> str:
    """The tile, or what stands in for it.

    A shape knows the size of its elements, not their type: ``elements`` says which 16-bit type is
    meant where it is not bf16.
    """
    shape = compiled.geometry
    if shape is not None:
        named = _ELEMENTS.get(shape.elem_bytes, f"{shape.elem_bytes}-byte")
        if elements == "fp16" and shape.elem_bytes == 2:
            named = elements
        return f"{shape.BM}x{shape.BN}x{shape.BK} {named}"
    config = compiled.config
    if config.depth < 2:
        return "no tile: the target profile's counts"
    return f"no tile: {config.vm_per_load_a} + {config.vm_per_load_b} vmcnt entries per load"


def unsynchronised_note(compiled: CompiledSchedule) -> str:
    """Of a schedule whose specification states no wait at all, where to get them; else empty."""
    if any(compiled.counts(phase).coalesced_waits for phase in Phase):
        return ""
    return (
        f"note: the specification of {compiled.schedule} leaves its waits to the compiler; "
        "--sync proven derives them"
    )


def knobs(compiled: CompiledSchedule) -> list[tuple[str, list[tuple[str, str, bool]]]]:
    """Title and rows of name, value, whether it differs from the default."""
    default = ScheduleConfig()
    scheduler = [
        (f.name, _text(value), value != getattr(default, f.name))
        for f in fields(ScheduleConfig)
        for value in (getattr(compiled.schedule_config, f.name),)
    ]
    pipeline = [
        (f.name, _text(getattr(compiled.config, f.name)), False) for f in fields(PipelineConfig)
    ]
    groups = [("schedule_config", scheduler), ("config", pipeline)]
    if compiled.geometry is not None:
        shape = compiled.geometry
        groups.append(
            ("geometry", [(f.name, _text(getattr(shape, f.name)), False) for f in fields(shape)])
        )
    return groups


def _text(value: object) -> str:
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_dataclass(value) and not isinstance(value, type):
        parts = (f"{f.name} {_text(getattr(value, f.name))}" for f in fields(value))
        return ", ".join(parts)
    return str(value)

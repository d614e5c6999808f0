"""Settings that are legal but change nothing, as one-line notes on the result.

A knob without effect is usually a misunderstanding: worth a line, not an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeloom.reference.config import PipelineConfig
from pipeloom.reference.schedule_config import UNLIMITED_VGPR, ScheduleConfig, SchedulingStrategy

_DEFAULT = ScheduleConfig()


def ineffective_knobs(config: PipelineConfig, knobs: ScheduleConfig) -> tuple[str, ...]:
    """A note for each knob of ``knobs`` that has no effect in this combination."""
    if config.depth < 2:
        return tuple(_single_buffer(knobs))
    return tuple(_double_buffer(config, knobs))


def _single_buffer(knobs: ScheduleConfig) -> Iterator[str]:
    for name in ScheduleConfig.__dataclass_fields__:
        value = getattr(knobs, name)
        if value != getattr(_DEFAULT, name):
            shown = value.name if isinstance(value, SchedulingStrategy) else value
            yield f"{name}={shown} has no effect at depth 1: blocks and waits are not generated"


def _double_buffer(config: PipelineConfig, knobs: ScheduleConfig) -> Iterator[str]:
    strategy = knobs.scheduling
    if knobs.omit_mma_set_prio and not knobs.minimal_barriers:
        yield "omit_mma_set_prio has no effect without minimal_barriers"
    if knobs.max_vgpr != UNLIMITED_VGPR and strategy is not SchedulingStrategy.CSP:
        yield f"max_vgpr={knobs.max_vgpr} has no effect with {strategy.name}: only CSP enforces it"
    if knobs.lds_contention_penalty and strategy is not SchedulingStrategy.CSP:
        yield (
            f"lds_contention_penalty={knobs.lds_contention_penalty} does not change the order "
            f"with {strategy.name}, only its certificate"
        )
    if knobs.auto_drain and not knobs.auto_waits:
        yield "auto_drain has no effect without auto_waits"
    if knobs.auto_drain and knobs.auto_waits and knobs.drain_lgkm_mask:
        yield "drain_lgkm_mask has no effect with auto_drain, which decides every block"
    if knobs.auto_waits and knobs.wait_vm_last != _DEFAULT.wait_vm_last:
        yield f"wait_vm_last={knobs.wait_vm_last} has no effect with auto_waits, which derives it"
    if knobs.auto_waits and knobs.wait_lgkm_first != _DEFAULT.wait_lgkm_first:
        yield f"wait_lgkm_first={knobs.wait_lgkm_first} is derived anew by auto_waits"
    if knobs.minimal_barriers:
        yield from _minimal_barriers(knobs)
    for name in ("sched_barrier_mask", "drain_lgkm_mask"):
        if getattr(knobs, name) >> config.total_blocks():
            yield f"{name} has bits above block {config.total_blocks() - 1}, which do nothing"
    for side in ("a", "b"):
        name = f"lgkm_per_load_{side}"
        if getattr(knobs, name) and getattr(config, name):
            yield f"ScheduleConfig.{name} yields to PipelineConfig.{name} for derived waits"
    if knobs.inter_block_lgkm_drain and config.blocks_per_partition() < 3:
        yield "inter_block_lgkm_drain has no effect: no half has an interior block"


def _minimal_barriers(knobs: ScheduleConfig) -> Iterator[str]:
    if knobs.lgkm_after_last:
        yield "lgkm_after_last has no effect with minimal_barriers: there is no barrier to follow"
    if knobs.sched_barrier_mask not in (0, _DEFAULT.sched_barrier_mask):
        yield "sched_barrier_mask has no effect with minimal_barriers: no barrier ends a block"

"""Structural rules a finished program must satisfy. Every failure raises, none is silent.

These are cheap checks of shape. They say nothing about races: that is the verdict's business.
"""

from __future__ import annotations

from pipeloom.errors import StructureError
from pipeloom.reference.blocks import MMABlockSpec, PipelineProgram, is_prefetch_load
from pipeloom.reference.config import PipelineConfig
from pipeloom.reference.graph import describe_op
from pipeloom.reference.ops import OpRole, OpTag
from pipeloom.reference.schedule_config import ScheduleConfig


def verify_schedule(
    program: PipelineProgram, config: PipelineConfig, schedule_config: ScheduleConfig
) -> None:
    """Raise ``StructureError`` at the first rule that ``program`` breaks.

    Args:
        program: The blocks.
        config: The pipeline's shape.
        schedule_config: The scheduler's knobs.
    """
    _check_blocks(program, config)
    _check_first_wait(program, schedule_config)
    _check_spread(program, config)
    if config.depth >= 2 and not config.cross_stage_rotation:
        _check_stages(program)
    if not any(is_prefetch_load(op) for block in program.blocks for op in block.loads):
        raise StructureError(
            "no global load prefetches for a later iteration",
            hint="give loads a k_offset of K0, K1 or K_NEXT",
            field="body",
        )
    if config.depth >= 2 and config.warp_stagger.enabled and not config.block_sizing.max_globals:
        _check_stagger(program)


def check_complete(program: PipelineProgram, config: PipelineConfig) -> None:
    """Each half has the whole MMA grid, and each MMA the fragments that it multiplies.

    With ``cross_stage_rotation`` a fragment may be loaded in the other half, or in the prologue,
    but some block of the body must load it.
    """
    everywhere = [f for block in program.blocks for f in block.fragments]
    for half, members in program.halves():
        _check_grid(half, members, config)
        own = [f for block in members for f in block.fragments]
        fragments = everywhere if config.cross_stage_rotation else own
        for mma in (block.mma for block in members):
            for channel, operand in enumerate("AB"):
                key = config.compute_match_key(mma, channel)
                if not any(f.channel == channel and f.subtile == key for f in fragments):
                    raise StructureError(
                        f"{describe_op(mma)} in half {half} has no fragment {operand} of sub {key} "
                        "to multiply",
                        hint=f"declare a fragment load with ch={channel}, sub={key} in each half, "
                        "or a smaller MMA grid",
                        field="body",
                    )


def _check_grid(half: int, members: tuple[MMABlockSpec, ...], config: PipelineConfig) -> None:
    rows = {block.mma.stage for block in members}
    columns = {block.mma.subtile for block in members}
    if rows != set(range(config.m_mmas)) or columns != set(range(config.n_mmas)):
        raise StructureError(
            f"half {half} has MMAs in rows {_listed(rows)} and columns {_listed(columns)}, but the "
            f"configuration asks for a grid of {config.m_mmas}x{config.n_mmas}",
            hint=f"declare grid({config.m_mmas}, {config.n_mmas}, ...), or set m_mmas and n_mmas "
            "to what is declared",
            field="PipelineConfig.m_mmas",
        )


def _listed(numbers: set[int]) -> str:
    return ", ".join(str(number) for number in sorted(numbers))


def _check_blocks(program: PipelineProgram, config: PipelineConfig) -> None:
    if len(program.blocks) != config.total_blocks():
        raise StructureError(
            f"the program has {len(program.blocks)} blocks, but the configuration asks for "
            f"{config.total_blocks()}",
            hint="one block per MMA: num_partitions * m_mmas * n_mmas",
            field="program.blocks",
        )
    for number, block in enumerate(program.blocks):
        if block.mma.role is not OpRole.COMPUTE:
            raise StructureError(
                f"block {number} is built around {describe_op(block.mma)}, not a COMPUTE",
                hint="every block has exactly one MMA",
                field=f"program.blocks[{number}].mma",
            )


def _check_first_wait(program: PipelineProgram, knobs: ScheduleConfig) -> None:
    """Under auto_waits the first lgkm wait of a half must be one its own loads can reach."""
    if not knobs.auto_waits or not (knobs.lgkm_per_load_a or knobs.lgkm_per_load_b):
        return
    for half, members in program.halves():
        cost = sum(
            knobs.lgkm_per_load_a if op.channel == 0 else knobs.lgkm_per_load_b
            for op in members[0].loads
        )
        wait = members[0].entry_wait_lgkm or members[0].pre_sync
        if wait is None or wait.tag != OpTag.WAIT_LGKM:  # a half of one block ends in its vm wait
            continue
        if cost and wait.wait_value > cost:
            raise StructureError(
                f"half {half} waits for lgkmcnt {wait.wait_value} before its first MMA, but its "
                f"first block issues only {cost} entries",
                hint="make both halves start with loads of the same cost, or set auto_waits=False",
                field="ScheduleConfig.wait_lgkm_first",
            )


def _check_spread(program: PipelineProgram, config: PipelineConfig) -> None:
    limit = config.block_sizing.max_globals
    total = sum(len(block.loads) for block in program.blocks)
    if limit == 0 or total < limit * len(program.blocks):
        return
    for number, block in enumerate(program.blocks):
        if len(block.loads) != limit:
            raise StructureError(
                f"block {number} has {len(block.loads)} global loads, but max_globals asks for "
                f"{limit} in each",
                hint="set max_globals to 0 to leave loads where the order puts them",
                field="PipelineConfig.block_sizing.max_globals",
            )


def _check_stages(program: PipelineProgram) -> None:
    for half, members in program.halves():
        for fragment in (f for block in members for f in block.fragments):
            if fragment.stage != half:
                raise StructureError(
                    f"{describe_op(fragment)} in half {half} reads stage {fragment.stage}",
                    hint=f"fragments of half {half} must read stage {half}; set "
                    "cross_stage_rotation for register rotation",
                    field="body",
                )
        if not any(load.stage != half for block in members for load in block.loads):
            raise StructureError(
                f"half {half} has no completion load (a load of the other stage)",
                hint="declare one load per half that completes the other stage's buffer",
                field="body",
            )


def _check_stagger(program: PipelineProgram) -> None:
    """No interior block may load its own stage while the next block reads it.

    The lagging wave group would still be reading when the leading one overwrites.
    """
    size = program.blocks_per_partition
    for half, members in program.halves():
        for pos in range(1, len(members) - 1):
            if _races_with_next(members[pos], members[pos + 1], half):
                number = half * size + pos
                load = next(op for op in members[pos].loads if op.stage == half)
                raise StructureError(
                    f"cross-block LDS race: block {number} issues {describe_op(load)} while block "
                    f"{number + 1} still reads stage {half}, and the wave groups are staggered",
                    hint="set max_globals=1 to spread the loads, or lower block_sizing so that "
                    "the load comes later, or turn the stagger off",
                    field="PipelineConfig.block_sizing",
                )


def _races_with_next(block: MMABlockSpec, following: MMABlockSpec, half: int) -> bool:
    loads_own = any(op.stage == half for op in block.loads)
    return loads_own and any(f.stage == half for f in following.fragments)

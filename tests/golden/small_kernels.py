"""Small kernels that together take every road from a declaration to a kernel, each in little time.

Tiles are as small as their road allows. Where the road is not the point, loads stay an iteration
ahead of the rest (``in_order``), which takes no search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from benchmarks.kernel_results import Make, derived
from evidence.weaken import weakenings
from pipeloom.declare.kernels import (
    attention,
    conv2d,
    gemm,
    gemm_bias,
    gemm_gate,
    gemm_norm,
    gemm_quantised,
    gemm_rotary,
    gemm_scaled,
    gemm_weights,
    grouped,
    layer_norm,
    moe_down,
    moe_up,
    row_sum,
    softmax,
)
from pipeloom.declare.products import product
from pipeloom.drive.opening import open_source
from pipeloom.drive.sources import Source
from pipeloom.order.in_order import in_order
from pipeloom.order.roles import Consumer, Producer
from pipeloom.order.strategy import Exact
from pipeloom.program import Program, Wait
from pipeloom.reference.compiler import Sync
from tests.declarations import attention_cases, carry_cases, condition_cases, epilogue_cases
from tests.declarations.cases import Case, accepted


def declared(case: Case) -> Make:
    """One of the declarations that people write, in the cheapest order."""
    return lambda: accepted(case)[1]


def opened(name: str, tile: str, dtype: str, sync: Sync) -> Make:
    """One of the specification's schedules with waits and barriers as ``sync`` says."""
    source = Source(name, tile=tile, dtype=dtype, sync=sync)
    return lambda: open_source(source).program()


def weakened(make: Make, number: int) -> Make:
    """A kernel with one piece of synchronisation less: what the verifier finds is kept, too."""
    return lambda: list(weakenings(make()))[number].program


def longest_waits(make: Make) -> Make:
    """A kernel whose waits all ask for more than any counter holds."""

    def made() -> Program:
        program = make()
        groups = tuple(
            replace(
                group,
                sections=tuple(
                    replace(
                        section,
                        steps=tuple(
                            replace(s, count=99) if isinstance(s, Wait) else s
                            for s in section.steps
                        ),
                    )
                    for section in group.sections
                ),
            )
            for group in program.groups
        )
        return program.with_groups(groups, program.provenance)

    return made


_TINY = derived(gemm(32, 32, 32), 1, strategy=in_order)

SMALL: Mapping[str, Make] = MappingProxyType(
    {
        # woven from single instructions, structures varied
        "gemm 64x64x32 8 waves": derived(gemm(64, 64, 32), 8),
        "gemm 32x32x64 4 waves": derived(gemm(32, 32, 64), 4),
        "gemm 32x32x128 fp8 4 waves": derived(gemm(32, 32, 128, "fp8"), 4),
        "gemm_gate 32x32x32 4 waves": derived(gemm_gate(32, 32, 32), 4),
        "gemm_weights 32x32x64 i4 in groups 4 waves": derived(
            gemm_weights(32, 32, 64, "i4", group=32), 4
        ),
        # left to the modulo solver
        "gemm 16x16x32 1 wave": derived(gemm(16, 16, 32), 1),
        "gemm 32x32x32 fp16 gfx942 4 waves": derived(gemm(32, 32, 32, "fp16"), 4, "gfx942"),
        "gemm 32x32x64 fp8_fnuz gfx942 4 waves": derived(gemm(32, 32, 64, "fp8_fnuz"), 4, "gfx942"),
        "gemm 32x32x64 4 waves 5 tiles": derived(gemm(32, 32, 64), 4, k_tiles=5),
        "product NN 32x32x32 4 waves": derived(product(32, 32, 32, layout="NN"), 4),
        "product 32x32x256 mxfp4 4 waves": derived(product(32, 32, 256, "fp4", blocks=True), 4),
        "gemm_scaled 32x32x128 4 waves": derived(gemm_scaled(32, 32, 128), 4),
        "gemm_bias 32x32x32 4 waves": derived(gemm_bias(32, 32, 32), 4),
        "gemm_norm 32x32x32 4 waves": derived(gemm_norm(32, 32, 32), 4),
        "grouped 32x32x32 4 waves": derived(grouped(32, 32, 32), 4),
        "conv2d 16 channels 32x32 4 waves": derived(conv2d(16, 32, 32), 4),
        "row_sum 4 waves": derived(row_sum(), 4),
        "attention 64x32x32 4 waves": derived(attention(64, 32, 32), 4),
        # somebody says how they are ordered
        "gemm 32x32x32 by Exact 4 waves": derived(gemm(32, 32, 32), 4, strategy=Exact()),
        "gemm_gate 32x32x32 by Exact 4 waves": derived(gemm_gate(32, 32, 32), 4, strategy=Exact()),
        "gemm 32x32x32 producers and consumers": derived(
            gemm(32, 32, 32), None, groups=[Producer(waves=4), Consumer(waves=4)]
        ),
        "gemm 32x32x32 in order 1 wave": _TINY,
        "gemm 32x32x32 in order 2 waves": derived(gemm(32, 32, 32), 2, strategy=in_order),
        "gemm_weights 32x32x64 i8 in order 4 waves": derived(
            gemm_weights(32, 32, 64), 4, strategy=in_order
        ),
        "attention causal 32x32x32 in order 1 wave": derived(
            attention(32, 32, 32, causal=True), 1, strategy=in_order
        ),
        "attention gfx942 64x32x32 in order 4 waves": derived(
            attention(64, 32, 32), 4, "gfx942", strategy=in_order
        ),
        "moe_up 32x32x32 in order 4 waves": derived(moe_up(32, 32, 32), 4, strategy=in_order),
        "gemm_rotary 32x32x32 to a cache in order 1 wave": derived(
            gemm_rotary(32, 32, 32, scatter=True), 1, strategy=in_order
        ),
        "gemm_quantised 32x64x32 by powers in order 2 waves": derived(
            gemm_quantised(32, 64, 32, powers=True), 2, strategy=in_order
        ),
        "moe_down 32x32x32 added gfx942 in order 1 wave": derived(
            moe_down(32, 32, 32, add=True), 1, "gfx942", strategy=in_order
        ),
        "softmax in order 4 waves": derived(softmax(), 4, strategy=in_order),
        "layer_norm gfx942 in order 4 waves": derived(layer_norm(), 4, "gfx942", strategy=in_order),
        # as people declare them
        "sliding window": declared(attention_cases.sliding_window),
        "document mask": declared(attention_cases.document_mask_from_arrays),
        "mean and variance": declared(carry_cases.mean_and_variance_in_one_pass),
        "truths counted": declared(condition_cases.truths_counted),
        "requantised with row scales": declared(epilogue_cases.requantised_to_fp8_with_row_scales),
        # the specification's schedules
        "ping_pong 128x128x64 reference": opened("ping_pong", "128x128x64", "bf16", "reference"),
        "four_wave 64x64x128 fp8 reference": opened("four_wave", "64x64x128", "fp8", "reference"),
        "four_wave 64x64x64 proven": opened("four_wave", "64x64x64", "bf16", "proven"),
        "single_buffer 64x64x64 repaired": opened("single_buffer", "64x64x64", "bf16", "repaired"),
        # what is wrong, and said to be
        "wait for more than a counter holds": longest_waits(_TINY),
        "weakened first": weakened(_TINY, 0),
        "weakened middle": weakened(_TINY, 4),
        "weakened last": weakened(_TINY, -1),
    }
)
"""By name; the file of a kernel's results has the same one."""

"""The code object around the instructions: version, padding, alignment, what a reader sees."""

from __future__ import annotations

import struct
from collections.abc import Callable

from pipeloom.drive.trial import Launchable
from pipeloom.judge.emulate import decode_kernel
from pipeloom.judge.emulate.limits import Limits
from pipeloom.write import assemble
from pipeloom.write.isa import CACHE_LINE, S_NOP

SHAPE = (128, 128, 64, 16, 32)
V5 = 3
"""ELFABIVERSION_AMDGPU_HSA_V5."""


def test_it_is_a_version_5_code_object(built: Callable[..., Launchable]) -> None:
    data = assemble(built("ping_pong", "bf16", SHAPE).emitted).data
    assert data[8] == V5
    assert b"amdhsa.version\x92\x01\x02" in data


def test_code_is_padded_for_the_instruction_prefetch(built: Callable[..., Launchable]) -> None:
    """At least 16 cache lines of s_nop follow the last instruction."""
    ready = built("ping_pong", "bf16", SHAPE)
    data = assemble(ready.emitted).data
    end = data.index(ready.kernel.code) + len(ready.kernel.code)
    assert decode_kernel(ready.kernel.code)[-1].name == "s_endpgm"
    padding = data[end : end + 16 * CACHE_LINE]
    assert set(struct.unpack(f"<{len(padding) // 4}I", padding)) == {S_NOP}


def test_the_loop_starts_a_cache_line(built: Callable[..., Launchable]) -> None:
    for name, shape in (("ping_pong", SHAPE), ("single_buffer", (64, 64, 64, 16, 32))):
        ready = built(name, "bf16", shape)
        program = decode_kernel(ready.kernel.code)
        targets = [
            instruction.pc + 4 + 4 * (instruction.fields["simm16"] - 0x10000)
            for instruction in program
            if instruction.name == "s_cbranch_scc1" and instruction.fields["simm16"] >= 0x8000
        ]
        assert len(targets) == (2 if name == "ping_pong" else 1), "one loop per group"
        assert all(target % CACHE_LINE == 0 for target in targets)


def test_metadata_and_descriptor_agree(built: Callable[..., Launchable]) -> None:
    ready = built("ping_pong", "bf16", SHAPE)
    kernel, resources = ready.kernel, ready.emitted.resources
    limits, said = Limits.of(kernel), kernel.metadata
    assert limits.vgprs == limits.accum_offset == resources.accum_offset
    assert resources.agprs <= limits.agprs < resources.agprs + 8
    assert resources.sgprs <= limits.sgprs < resources.sgprs + 16
    assert said.sgprs == resources.sgprs + 6
    assert said.kernarg_bytes == kernel.kernarg_bytes == 48
    assert said.required_block == ready.emitted.block

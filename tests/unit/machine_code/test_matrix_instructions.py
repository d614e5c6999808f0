"""What machine code's matrix instructions cost: every mnemonic, as LLVM's passes have it."""

from __future__ import annotations

import pytest

from pipeloom.machine.cdna import CYCLES_PER_PASS
from pipeloom.machine.chips import TARGETS
from pipeloom.machine.mnemonics import MNEMONICS, passes_of
from pipeloom.machine.target import Target
from pipeloom.machine_code.lowering import MachineLine, lower_line

FORMATS = {8: (0, 4), 6: (2, 4), 4: (4, 4)}
"""cbsz and blgp by the bits of the wider operand."""


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target.arch))
@pytest.mark.parametrize("bits", FORMATS)
def test_every_matrix_instruction_takes_its_own_passes(target: Target, bits: int) -> None:
    names = [name for name, traits in MNEMONICS.items() if traits.matrix]
    assert len(names) > 50
    for name in names:
        found = lower_line(MachineLine(name, name, formats=FORMATS[bits]), target).matrix_op
        assert found is not None
        passes = passes_of(name, bits, target.encoded_as)
        assert found.cycles.value == CYCLES_PER_PASS * passes, name


def test_passes_that_depend_on_more_than_the_name() -> None:
    double = "v_mfma_f64_16x16x4_f64"
    assert [passes_of(double, 8, arch) for arch in ("gfx942", "gfx950")] == [8, 16]
    narrow = "v_mfma_f32_16x16x128_f8f6f4"
    assert [passes_of(narrow, bits, "gfx950") for bits in (8, 6, 4)] == [8, 4, 4]
    assert passes_of("v_smfmac_f32_16x16x128_fp8_bf8", 8, "gfx950") == 4

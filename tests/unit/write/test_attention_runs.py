"""A sample of evidence/attention-runs.md on today's kernels, and the page itself."""

from __future__ import annotations

from evidence.attention_runs import PAGE, Variant, run_variant
from pipeloom.drive.trial import Launchable
from pipeloom.machine.mnemonics import Pipe
from pipeloom.write import assemble, emit_program
from pipeloom.write.isa import Instruction


def test_hard_data_within_twice_the_error_in_order() -> None:
    variant = Variant("gfx950", "fp16", 32, 32, causal=True, keys=32)
    emitted = emit_program(variant.program())
    found = run_variant(variant, Launchable.load(emitted, assemble(emitted)), every=5)
    assert found.runs == 7
    assert (found.wrong, found.findings, found.spoilt) == (0, 0, 0), found
    served: dict[str, list[str]] = {}
    for line in emitted.lines:
        if not isinstance(line, Instruction) or line.opcode.unit is not Pipe.VALU:
            continue
        if line.provenance is not None and line.provenance.what == "keep":
            served.setdefault(str(line.provenance), []).append(line.opcode.name)
    for names in served.values():  # 16 registers of 32 x 32 scores
        assert names.count("v_cmp_le_i32") == names.count("v_cndmask_b32") == 16
        assert len(names) < 3 * 16
    tests = [line for line in emitted.text.splitlines() if "v_cmp_gt_f32" in line]
    assert tests
    assert not any("vcc" in line for line in tests), "what a region asks for is a mask at once"


def test_the_page() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if "| gfx9" in line]
    runs = [row.split(" | ")[1:5] for row in rows if row.count(" | ") == 6]
    assert sum(int(row[0]) for row in runs) >= 300
    assert all(row[1:] == ["0", "0", "0"] for row in runs)

"""Derived loops as tables: exported, written, read, lifted again; proved, and as fast."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeloom.cli.main import main
from pipeloom.cms import (
    Table,
    check_exportable,
    export_table,
    left_out,
    lift_table,
    read_table,
    unlike_a_table,
)
from pipeloom.cms.scalars import follow
from pipeloom.declare.kernels import gemm
from pipeloom.declare.loop import Loop
from pipeloom.drive.loop_cycles import steady_cycles
from pipeloom.errors import SpecError
from pipeloom.judge.verify import verify
from pipeloom.machine.chips import target_for
from pipeloom.machine.dtypes import BF16, F32
from pipeloom.order.node_tasks import lower
from pipeloom.order.pattern import Pattern
from pipeloom.order.patterns import woven
from pipeloom.program import Program
from pipeloom.program.resources import Space


def derived(m: int, n: int, k: int, dtype: str, deep: int = 0, arch: str = "gfx950") -> Program:
    """A loop as ``derive`` makes it, without its search."""
    loop = gemm(m, n, k, dtype)
    return woven(
        lower(loop.meaning, target_for(arch), loop.ops, loop.staged, 4), Pattern(deep=deep)
    )


def exported(program: Program) -> Table:
    """Through the file's form."""
    table = export_table(program, name="again")
    return read_table(json.loads(json.dumps(table.to_dict())))


@pytest.mark.parametrize(
    ("shape", "dtype", "deep"),
    [((64, 64, 64), "bf16", 0), ((64, 64, 64), "fp16", 4), ((64, 64, 128), "fp8", 0)],
)
def test_a_derived_loop_is_a_proved_table(
    shape: tuple[int, int, int], dtype: str, deep: int
) -> None:
    program = derived(*shape, dtype, deep)
    assert unlike_a_table(program)
    table = exported(program)
    assert (table.tile, table.dtype) == (shape, dtype)
    copies = min(r.copies for r in program.resources if r.space is Space.LDS)
    assert table.lds_buffers == min(3, copies)
    lifted = lift_table(table)
    assert verify(lifted).proved
    assert not lifted.provenance.notes
    assert not follow(table, list(table.order(0))).notes
    assert table == exported(program)


def test_the_table_multiplies_in_the_order_of_the_program() -> None:
    """Rows outermost there, the other way round in a table that moves nothing."""
    table = exported(derived(64, 128, 64, "bf16"))
    rows, columns = table.wave_tile
    assert (rows, columns) == (2, 4)
    half = [a + rows * b for a in range(rows) for b in range(columns)]
    assert table.mfma_reorder == (*half, *(rows * columns + number for number in half))


def test_it_takes_about_as_long() -> None:
    program = derived(256, 96, 64, "bf16", 2)
    assert steady_cycles(lift_table(exported(program))) <= 1.02 * steady_cycles(program)


def test_what_no_table_says_is_named() -> None:
    cases = {
        "tile": derived(64, 64, 128, "bf16"),
        "target": derived(64, 64, 64, "bf16", arch="gfx942"),
    }
    for field, program in cases.items():
        with pytest.raises(SpecError) as caught:
            export_table(program, name="none")
        assert caught.value.field == field


def own(rows: str, columns: str, over: str, start: float = 0.0) -> Loop:
    """A product under other names."""
    loop = Loop("own", over=over)
    x = loop.stream("X", BF16, **{rows: 64, over: 64})
    w = loop.stream("W", BF16, **{columns: 128, over: 64})
    acc = loop.carry("acc", F32, start=start, **{rows: 64, columns: 128})
    acc += x.staged() @ w.staged()
    loop.store("out", acc)
    return loop


def ordered(loop: Loop) -> Program:
    return woven(lower(loop.meaning, target_for("gfx950"), loop.ops, loop.staged, 4), Pattern())


def test_operands_and_dimensions_may_have_any_names() -> None:
    assert exported(ordered(own("rows", "cols", "kk"))) == exported(derived(64, 128, 64, "bf16"))


def test_what_a_table_does_not_say_is_left_out_by_name() -> None:
    assert not left_out(own("m", "n", "k").meaning)
    assert "1.5" in left_out(own("m", "n", "k", 1.5).meaning)
    assert left_out(gemm(64, 64, 64, "bf16", out="bf16").meaning) == "convert"


def test_a_loop_that_is_no_plain_product_is_refused_before_it_is_derived() -> None:
    scaled = Loop("scaled", over="k")
    a, b = scaled.stream("A", BF16, m=64, k=64), scaled.stream("B", BF16, n=64, k=64)
    c = scaled.carry("C", F32, start=0, m=64, n=64)
    c += (a.staged() @ b.staged()) * 2
    scaled.store("out", c)
    across = Loop("across", over="k")
    a, b = across.stream("A", BF16, k=64, m=64), across.stream("B", BF16, n=64, k=64)
    c = across.carry("C", F32, start=0, m=64, n=64)
    c += a.staged() @ b.staged()
    across.store("out", c)
    product = own("m", "n", "k")
    for field, loop, arch, waves in (
        ("meaning", scaled, "gfx950", 4),
        ("A", across, "gfx950", 4),
        ("target", product, "gfx942", 4),
        ("waves", product, "gfx950", 8),
        ("tile", gemm(64, 64, 128, "bf16"), "gfx950", 4),
    ):
        with pytest.raises(SpecError) as caught:
            check_exportable(loop.meaning, target_for(arch), waves)
        assert caught.value.field == field


def test_export_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, file = tmp_path / "p.json", tmp_path / "t.json"
    source.write_text(derived(64, 64, 64, "bf16").to_json())
    assert main(["export", str(source), "--name", "mine", "-o", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["table"] == json.loads(file.read_text())
    assert (told["status"], told["table"]["id"]) == ("PROVED", "mine")
    assert main(["verify", str(file)]) == 0
    again = tmp_path / "again.json"
    assert main(["export", str(file), "-o", str(again)]) == 0
    assert "not the program's slots" not in capsys.readouterr().out
    assert json.loads(again.read_text()) == told["table"]
    assert main(["export", str(source), "--name", ""]) == 1
    assert main(["export", "ping_pong"]) == 1
    assert "8 waves" in capsys.readouterr().err
    assert main(["export", str(source), "-o", "t.html"]) == 1

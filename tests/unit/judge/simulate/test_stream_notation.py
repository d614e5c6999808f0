"""The text notation: what each word means, and the streams of the measured records."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from evidence.calibration import measured_records
from pipeloom.errors import ScheduleError
from pipeloom.judge.simulate.instruction import Kind, WaveOp
from pipeloom.judge.simulate.run_stream import simulate_stream
from pipeloom.judge.simulate.stream import (
    StreamError,
    StreamOptions,
    _resolve_bare_waits,
    parse_stream,
)
from pipeloom.machine.gfx942 import GFX942
from pipeloom.machine.gfx950 import GFX950
from pipeloom.machine.target import Target


def parse(text: str, machine: Target = GFX950, lds_conflict: float = 1.0) -> tuple[WaveOp, ...]:
    return parse_stream(text, machine, StreamOptions(machine.matrix_ops[0], lds_conflict))


def kinds(text: str, machine: Target = GFX950) -> list[Kind]:
    return [instruction.kind for instruction in parse(text, machine)]


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("M", Kind.MFMA),
        ("R", Kind.LDS_READ),
        ("T", Kind.LDS_READ),
        ("W", Kind.LDS_WRITE),
        ("G", Kind.GLOBAL_TO_LDS),
        ("V", Kind.VALU),
        ("X", Kind.TRANS),
        ("P", Kind.PACKED),
        ("S", Kind.SALU),
        ("N", Kind.NOP),
        ("N(3)", Kind.NOP),
        ("B", Kind.BARRIER),
        ("wv4", Kind.WAIT),
        ("wl(0)", Kind.WAIT),
        ("prio(2)", Kind.SET_PRIO),
        ("branch", Kind.BRANCH),
    ],
)
def test_each_word_is_one_instruction(word: str, kind: Kind) -> None:
    assert kinds(word) == [kind]


def test_widths_and_operands() -> None:
    read, transposed, write = parse("R T W", lds_conflict=2.0)
    assert (read.bytes_per_lane, transposed.bytes_per_lane, write.bytes_per_lane) == (16, 8, 16)
    assert {read.conflict, transposed.conflict, write.conflict} == {2.0}
    assert parse("N(3)")[0].amount == 3
    assert parse("prio(2)")[0].amount == 2


def test_a_load_goes_where_the_chip_can_send_it() -> None:
    assert kinds("G", GFX950) == [Kind.GLOBAL_TO_LDS]
    assert kinds("G", GFX942) == [Kind.GLOBAL_TO_VGPR]


def test_runs_and_groups() -> None:
    assert kinds("M3 V") == [Kind.MFMA] * 3 + [Kind.VALU]
    assert kinds("(S V G)x2") == [Kind.SALU, Kind.VALU, Kind.GLOBAL_TO_LDS] * 2
    nested = kinds("( (M V)x2 B )x3")
    assert nested == ([Kind.MFMA, Kind.VALU] * 2 + [Kind.BARRIER]) * 3
    assert kinds("M2(V)x2 B(S)x2") == kinds("M M V V B S S")
    assert kinds("(M2\tV) x 2") == kinds("( M2 V )×2") == kinds("M M V M M V")


@pytest.mark.parametrize("last", ["wl0", "wl(0)", "wv3+wl0", "prio1", "prio(1)", "N(2)", "B"])
def test_a_group_may_end_in_any_instruction(last: str) -> None:
    assert kinds(f"(M {last})x3") == kinds(f"M {last}") * 3
    assert kinds(f"((R {last})x2 {last})x2") == (kinds(f"R {last}") * 2 + kinds(last)) * 2


def test_letters_need_no_space_between_them() -> None:
    assert kinds("M4R2wl0B(MV)x2branch") == kinds("M4 R2 wl0 B (M V)x2 branch")


def test_counts_go_up_to_what_the_instruction_encodes() -> None:
    wait, nop, prio = parse("wv63+wl15 N(15) prio(3)")
    assert (wait.vm, wait.lgkm, nop.amount, prio.amount) == (63, 15, 15, 3)


@pytest.mark.parametrize("text", ["wv16+wl0", "wv(16)+wl(0)", "wl0+wv16", "wv16+l0", "wv16 + wl0"])
def test_a_combined_wait_is_one_instruction(text: str) -> None:
    (wait,) = parse(text)
    assert (wait.vm, wait.lgkm) == (16, 0)


def test_a_single_wait_leaves_the_other_counter_alone() -> None:
    vm, lgkm = parse("wv7 wl3")
    assert (vm.vm, vm.lgkm) == (7, None)
    assert (lgkm.vm, lgkm.lgkm) == (None, 3)


def test_legends_are_skipped() -> None:
    assert kinds("M=mfma R=ds_read; a number is a run || M2 B") == [Kind.MFMA] * 2 + [Kind.BARRIER]
    assert kinds("M B (w = s_waitcnt)") == [Kind.MFMA, Kind.BARRIER]


@pytest.mark.parametrize(
    ("text", "vm", "lgkm"),
    [("w B M", None, 0), ("w M B", None, 0), ("w W M", 0, None), ("w R M", 0, 0)],
)
def test_a_bare_wait_waits_for_what_follows(text: str, vm: int | None, lgkm: int | None) -> None:
    wait = parse(text, GFX942)[0]
    assert (wait.kind, wait.vm, wait.lgkm) == (Kind.WAIT, vm, lgkm)


def test_a_bare_wait_at_the_end_looks_at_the_loop_head() -> None:
    assert parse("W M w", GFX942)[-1].vm == 0
    assert parse("B M w", GFX942)[-1].lgkm == 0


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("w W2 w W2 M8 G4", [2, 0]),  # stored before the registers are loaded again
        ("w W G w W G w W G w W G", [3, 3, 3, 3]),
        ("G4 M8 w W4", [0]),  # stored in the iteration that loads
        ("G4 G4 M8 w W4 M8 w W4", [4, 0]),
        ("w W2 M G4", [0]),  # not one write for each load: all loads
        ("w W2 w W2 M8", [0, 0]),
    ],
)
def test_a_bare_wait_before_a_write_counts_the_loads_behind_its_own(
    text: str, counts: list[int]
) -> None:
    assert [i.vm for i in parse(text, GFX942) if i.kind is Kind.WAIT] == counts


def test_bare_waits_of_a_long_stream_are_resolved_in_one_pass() -> None:
    """Items looked at, not seconds: a list that counts how often it is read."""

    class Counted(list[WaveOp | None]):
        reads = 0

        def __getitem__(self, index: Any) -> Any:
            found = super().__getitem__(index)
            Counted.reads += len(found) if isinstance(index, slice) else 1
            return found

    one = WaveOp.mfma(GFX950.matrix_ops[0])
    resolved = _resolve_bare_waits(Counted([None, one] * 500), "")
    assert {wait.lgkm for wait in resolved[::2]} == {0}
    assert Counted.reads <= 2 * 1000


def test_the_counts_of_a_source_come_out_of_the_loop_that_omits_them() -> None:
    """A later version of this loop is published with vmcnt 15, 13 and 12 at these places."""
    record = next(r for r in measured_records() if r["id"] == "g942_intra_base")
    waits = [i for i in parse(record["stream"], GFX942) if i.kind is Kind.WAIT]
    assert [wait.vm for wait in waits if wait.vm is not None] == [15, 13, 12]


def test_given_streams_have_the_counts_their_records_state() -> None:
    given = [record for record in measured_records() if "stream" in record]
    assert len(given) == 3
    for record in given:
        machine = {"gfx950": GFX950, "gfx942": GFX942}[record["arch"]]
        found = Counter(kinds(record["stream"], machine))
        assert found[Kind.MFMA] == record["mfma"]["count"]
        assert found[Kind.LDS_READ] == sum(read["count"] for read in record["ds_read"])
        assert found[Kind.LDS_WRITE] == sum(write["count"] for write in record["ds_write"])
        assert found[Kind.GLOBAL_TO_LDS] + found[Kind.GLOBAL_TO_VGPR] == record["g2l"]["count"]
        assert found[Kind.BARRIER] == record["barriers"]


def test_a_name_makes_a_chain_of_what_works_on_it() -> None:
    free, chained = (simulate_stream(text, simds=1).total_cycles for text in ("V16", "V[a]16"))
    assert (chained - free) / 24 == pytest.approx(16 * 4, abs=1)
    halves = simulate_stream("(V[a] V[b])x8", simds=1).total_cycles
    assert halves == free, "two chains hide each other's latency"


@pytest.mark.parametrize("text", ["R[a]", "B[x]", "V[]", "V[a b]", "G[k]2", "m[c]"])
def test_only_vector_and_matrix_instructions_take_a_name(text: str) -> None:
    with pytest.raises(StreamError) as caught:
        simulate_stream(text)
    assert "V[max]4" in str(caught.value.hint)


def test_the_letters_of_handwritten_tables() -> None:
    small, load = parse("m g")
    assert small.matrix_op is not None
    assert small.matrix_op.cycles.value == GFX950.mfma_4x4_cycles.value
    assert load.kind is Kind.GLOBAL_TO_LDS
    assert load.bytes_per_lane == 4


def test_another_mfma_waits_for_the_unit_to_change() -> None:
    same = simulate_stream("M4", simds=1).steady_cycles_per_iteration
    mixed = simulate_stream("M4 m", simds=1).steady_cycles_per_iteration
    change = GFX950.mfma_switch_cycles.value
    assert mixed - same == GFX950.mfma_4x4_cycles.value + 2 * change


def test_code_paths_run_on_neighbouring_simds() -> None:
    trace = simulate_stream(("M8 V", "V M8"))
    assert [program.loop[0].kind for program in trace.programs] == [Kind.MFMA, Kind.VALU] * 2


@pytest.mark.parametrize(
    ("texts", "field"), [((), "stream"), (("M B", "M"), "stream"), (("M", 3), "simulation.stream")]
)
def test_code_paths_must_be_texts_with_the_same_barriers(
    texts: tuple[str, ...], field: str
) -> None:
    with pytest.raises(ScheduleError) as caught:
        simulate_stream(texts)
    assert caught.value.field == field

"""Hand-written tables: read, lifted, proved, refused where they break a rule, exported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeloom.cms import SyncEntry, Table, export_table, lift_table, read_table
from pipeloom.drive.opening import open_source
from pipeloom.errors import SpecError
from pipeloom.judge.simulate.issued import simulate
from pipeloom.judge.verify import Status, verify
from pipeloom.program.steps import Barrier, Wait, Work

# 64x32x64 on four waves: two MFMA tiles and two K steps a wave, two loads of A and one of B.
SCHEDULE: dict[str, tuple[tuple[int, ...], ...]] = {
    "SYNC": ((-1, 0, 0, 2, 2),),
    "GRIncA": ((-1,) * 9,),
    "GRIncB": ((-1,) * 9,),
    "LRA0": ((-1, -1),),
    "LRB0": ((-1,),),
    "LRSA": ((0,),),
    "LRSB": ((0,),),
    "GRA": ((0, 0, 1, 1),),
    "GRB": ((1, 1),),
    "LWSA": ((2,),),
    "LWSB": ((2,),),
    "LRA1": ((2, 2),),
    "LRB1": ((2,),),
    "LCC": ((3, 3),),
}
SMALL = Table(
    id="small",
    tile=(64, 32, 64),
    layout="TN",
    dtype="bf16",
    mi=(16, 16, 32),
    wave_group=(2, 2),
    wave_tile=(2, 1),
    num_code_paths=1,
    num_mfma=4,
    schedule=SCHEDULE,
    sync=(
        SyncEntry(dscnt=0),
        SyncEntry(dscnt=0),
        SyncEntry(barrier=True),
        SyncEntry(vlcnt=3),
        SyncEntry(barrier=True),
    ),
    nglshift=3,
    nllshift=3,
)


def changed(table: Table = SMALL, **lists: Any) -> Table:
    """With other lists for some kinds: one, or one per path."""
    new = {k: v if isinstance(v[0], tuple) else (v,) for k, v in lists.items()}
    return replace(table, schedule={**table.schedule, **new})


def paths(table: Table = SMALL) -> Table:
    """Two code paths, the second one's reads a slot later."""
    later = {
        kind: (lists[0], tuple(slot + 1 for slot in lists[0]))
        for kind, lists in table.schedule.items()
        if kind[:3] in ("LRA", "LRB")
    }
    moved = {
        "SYNC": ((-1, 1, 1, 2, 2),),
        "LRSA": ((1,),),
        "LRSB": ((1,),),
        "GRA": ((1, 1, 2, 2),),
        "GRB": ((2, 2),),
    }
    sync = (*table.sync[:3], SyncEntry(vlcnt=1), SyncEntry(barrier=True))
    schedule = {**table.schedule, **later, **moved}
    return replace(table, num_code_paths=2, schedule=schedule, sync=sync)


def synced(table: Table, number: int, entry: SyncEntry) -> Table:
    sync = list(table.sync)
    sync[number] = entry
    return replace(table, sync=tuple(sync))


@pytest.mark.parametrize("table", [SMALL, paths()], ids=["one path", "two paths"])
def test_a_sound_table_is_proved_and_simulated(table: Table) -> None:
    program = lift_table(table)
    assert verify(program).status is Status.PROVED
    assert not program.provenance.notes
    trace = simulate(program, iterations=18)
    assert trace.steady_cycles_per_iteration / 2 >= 4 * 16
    assert [len(g.waves) for g in program.groups] == [4 // table.num_code_paths] * (
        table.num_code_paths
    )


def test_every_entry_is_a_step_or_an_issue_slot() -> None:
    loop = next(s for s in lift_table(SMALL).groups[0].sections if s.name == "loop")
    works = [step for step in loop.steps if isinstance(step, Work)]
    assert len(works) == 2 * (4 + 6 + 3)
    assert sum(isinstance(step, Wait) for step in loop.steps) == 2 * 3
    assert sum(isinstance(step, Barrier) for step in loop.steps) == 2 * 2
    scalars = sum(i.count for w in works for i in w.issues if i.unit.value == "scalar")
    branch = 2 + 5  # the loop counter and the branch between the two iterations of a trip
    assert scalars == 2 * (18 + 3 + 2) + branch


BROKEN = {
    "no wait for the first fragments": (synced(SMALL, 0, SyncEntry(dscnt=1)), "register"),
    "a load over what is still read": (synced(SMALL, 1, SyncEntry(dscnt=1)), "war"),
    "reads before the loads are there": (synced(SMALL, 3, SyncEntry(vlcnt=4)), "raw"),
    "a read before the barrier": (changed(LRA1=(1, 2)), "raw"),
    "a read over what is still multiplied": (changed(LRA1=(-1, 2)), None),
}
MISSED = {
    "loads before the last GRIncB": changed(GRIncB=(2,) * 9),
    "reads the other buffer: LRSA": changed(LRSA=(-1,), LRA0=(-1, 0)),
    "LWSA swaps before": changed(LWSA=(-1,)),
    "uses m0 of GRB": changed(GRB=(0, 0)),
    "behind the loop counter": changed(LCC=(1, 1)),
}


@pytest.mark.parametrize(("note", "table"), MISSED.items())
def test_the_program_says_what_scalars_get_wrong(note: str, table: Table) -> None:
    assert any(note in found for found in lift_table(table).provenance.notes)


@pytest.mark.parametrize(("table", "kind"), BROKEN.values(), ids=list(BROKEN))
def test_a_broken_rule_is_found(table: Table, kind: str | None) -> None:
    verdict = verify(lift_table(table))
    assert verdict.status in (Status.RACE, Status.TIMING)
    if kind is not None:
        assert kind in {finding.kind.value for finding in verdict.findings}


def test_a_bug_on_one_path_only_is_found() -> None:
    table = paths()
    lists = table.schedule["LRB0"]
    broken = changed(table, LRB0=(lists[0], (1,)))
    verdict = verify(lift_table(broken))
    assert verdict.status in (Status.RACE, Status.TIMING)
    assert {f.first.wave % 2 for f in verdict.findings if f.first and "LRB0" in f.first.op} == {1}


def test_a_bug_in_the_last_loop_only_is_found_and_fixed_by_its_flag() -> None:
    """A wait that counts on the reads of the next tile, which the last loop does not have."""
    kept = {kind: SCHEDULE[kind] for kind in ("GRIncA", "GRIncB")}
    moved = {
        "LRA0": ((0, 0),),
        "LRB0": ((0,),),
        "LRSA": ((0,),),
        "LRSB": ((0,),),
        "LRA1": ((1, 1),),
        "LRB1": ((1,),),
        "GRA": ((3,) * 4,),
        "GRB": ((3,) * 2,),
        "LWSA": ((3,),),
        "LWSB": ((3,),),
        "SYNC": ((-1, 0, 0, 1, 2),),
        "LCC": ((3, 3),),
    }
    barrier = SyncEntry(barrier=True)
    sync = (SyncEntry(dscnt=0), SyncEntry(vlcnt=0), barrier, SyncEntry(dscnt=3), barrier)
    table = replace(SMALL, schedule={**kept, **moved}, sync=sync)
    verdict = verify(lift_table(table))
    assert {f.second.section for f in verdict.findings if f.second is not None} == {"nll"}
    assert verify(lift_table(replace(table, nll_zero_dscnt=True))).status is Status.PROVED


def test_packs_ahead_belong_to_the_reads_of_their_own_iteration() -> None:
    """The same slots: packs at the start of an iteration, sound for what the one before read."""
    packs = {
        **{f"LR{operand}0": (-1,) * 8 for operand in "AB"},
        **{f"LR{operand}1": (2,) * 8 for operand in "AB"},
        "PackA1": (-1,) * 8,
        "PackB1": (-1,) * 4,
        "PackA0": (1,) * 8,
        "PackB0": (1,) * 4,
    }
    table = changed(replace(SMALL, layout="NT"), **packs)
    assert verify(lift_table(table)).proved
    program = lift_table(replace(table, flags=frozenset({"UsePLRPack"})))
    verdict = verify(program)
    assert {f.first.op.partition("[")[0] for f in verdict.findings if f.first} == {
        "PackA1",
        "PackB1",
    }
    assert any("PackA1[0] packs what LRA1[0]" in note for note in program.provenance.notes)


def test_scc_is_followed_through_the_descriptors_carries() -> None:
    split = changed(GRIncB=(-1, -1, -1, 0, 1, 1, 1, 1, 1), GRA=(0, 0, 0, 0), GRB=(2, 2), LWSB=(3,))
    program = lift_table(split)
    assert any("writes SCC between GRIncB[3] and [4]" in note for note in program.provenance.notes)
    assert verify(program).status is not Status.PROVED


def test_a_table_reads_as_it_was_written() -> None:
    for table in (SMALL, paths()):
        assert read_table(table.to_dict()) == table


def test_old_slot_order_puts_kinds_of_one_list_first() -> None:
    table = replace(paths(), slot_order="old")
    kinds = [kind for kind, _ in table.order(0)]
    assert kinds.index("LRA0") > kinds.index("GRIncB")
    swapped = replace(SMALL, flags=frozenset({"SwapGlobalReadOrder"}))
    assert swapped.loads("A") == "GRB"


@pytest.mark.parametrize("table", [SMALL, paths()], ids=["one path", "two paths"])
def test_an_exported_program_is_a_proved_table(table: Table) -> None:
    again = export_table(lift_table(table), name="again")
    assert (again.tile, again.wave_tile, again.num_mfma) == (table.tile, (2, 1), 4)
    assert again.sync == table.sync
    assert [len(again.slots(k, 0)) for k in SCHEDULE] == [len(table.slots(k, 0)) for k in SCHEDULE]
    assert verify(lift_table(again)).status is Status.PROVED


WRONG = {
    "wave_tile": {"wave_tile": (2, 3)},
    "num_mfma": {"num_mfma": 7},
    "slot_order": {"slot_order": "new"},
    "layout": {"layout": "zz"},
    "dtype": {"dtype": "f64"},
    "tile": {"tile": (64, 32, 70)},
    "num_code_paths": {"num_code_paths": 3},
    "lds_buffers": {"lds_buffers": 10**6},
    "snop": {"schedule": {**SCHEDULE, "SNOP": ((0,),)}, "snop": (10**9,)},
    "flags": {"flags": frozenset({"UseMagic"})},
    "GRA": {"schedule": {**SCHEDULE, "GRA": ((1, 1, 0, 0),)}},
    "mfma_reorder": {"mfma_reorder": (0,) * 4},
    "SYNC": {"sync": SMALL.sync[:2]},
    "LRA0": {"schedule": {**SCHEDULE, "LRA0": ((0, 99),)}},
    "LRB0": {"schedule": {**SCHEDULE, "LRB0": ((0,), (1,))}},
    "LRX0": {"schedule": {**SCHEDULE, "LRX0": ((0,),)}},
    "wave_group": {"wave_group": (1, 2), "wave_tile": (4, 1), "num_mfma": 8},
}


@pytest.mark.parametrize(("field", "values"), WRONG.items())
def test_a_malformed_table_is_refused_by_the_field_at_fault(
    field: str, values: dict[str, Any]
) -> None:
    with pytest.raises(SpecError) as caught:
        replace(SMALL, **values)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "slots"),
    [
        ("LRA0", (0,)),
        ("GRA", ((),)),
        ("GRIncA", ((),)),
        ("GRIncA", (-1,) * 4),
        ("GRIncB", (-1,)),
        ("LWSA", ((),)),
        ("LWSB", ((),)),
        ("LRSA", ((),)),
        ("LCC", ((),)),
        ("LCC", (3,)),
    ],
)
def test_entries_must_make_up_the_tile_and_move_its_addresses(field: str, slots: Any) -> None:
    with pytest.raises(SpecError) as caught:
        lift_table(changed(**{field: slots}))
    assert caught.value.field == field
    lists = {kind: one for kind, one in SCHEDULE.items() if kind != field}
    with pytest.raises(SpecError) as caught:
        lift_table(replace(SMALL, schedule=lists))
    assert caught.value.field == field


def test_one_write_pointer_of_three_buffers_serves_both_operands() -> None:
    swapped = {"LRSA": (0,) * 4, "LRSB": (0,), "LWSB": ((),)}
    sound = changed(replace(SMALL, lds_buffers=3), **swapped, LWSA=(2,) * 3)
    assert not lift_table(sound).provenance.notes
    early = changed(sound, LWSA=(0,) * 3)  # behind the first m0 of A, ahead of that of B
    assert any("LWSB swaps before" in note for note in lift_table(early).provenance.notes)


def test_a_record_that_is_no_table_says_what_it_lacks() -> None:
    record = SMALL.to_dict()
    del record["tile"]
    with pytest.raises(SpecError) as caught:
        read_table(record)
    assert caught.value.field == "tile"


MISTYPED = [
    ("tile", [64, 32]),
    ("tile", 64),
    ("mi", [16, 16]),
    ("mi", [16, 16, 0]),
    ("wave_group", [2]),
    ("wave_tile", []),
    ("wave_tile", [2, True]),
    ("layout", 7),
    ("dtype", ["bf16"]),
    ("num_code_paths", "two"),
    ("num_mfma", None),
    ("nglshift", "zz"),
    ("nglshift", float("nan")),
    ("nllshift", -1),
    ("nll_zero_dscnt", "no"),
    ("mfma_reorder", [0, "1", 2, 3]),
    ("flags", ["UsePLRPack"]),
    ("flags", {"UsePLRPack": "yes"}),
    ("snop", {}),
    ("lds_buffers", 2.5),
    ("sync", {}),
    ("sync", [5]),
    ("sync", [{"index": -1, "dscnt": None}]),
    ("sync", [{"index": -1, "dscnt": "0"}]),
    ("sync", [{"index": 3, "dscnt": 0}, *SMALL.to_dict()["sync"][1:]]),
    ("schedule", []),
    ("slot_order", []),
]


@pytest.mark.parametrize(("field", "value"), MISTYPED)
def test_a_field_of_another_type_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(SpecError) as caught:
        read_table({**SMALL.to_dict(), field: value})
    assert str(caught.value.field).partition("[")[0] == field


def test_a_list_that_is_no_list_of_slots_is_refused_by_its_kind() -> None:
    for lists in (3, [3], [["3"]], [[1.5, 3]], []):
        with pytest.raises(SpecError) as caught:
            read_table({**SMALL.to_dict(), "schedule": {**SCHEDULE, "LCC": lists}})
        assert str(caught.value.field).removeprefix("schedule.").partition("[")[0] == "LCC"


def test_commands_take_the_file_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps(SMALL.to_dict()), encoding="utf-8")
    subject = open_source(str(path))
    assert subject.program() == lift_table(SMALL)
    assert "64x32x64 bf16" in subject.header()


def test_a_half_without_tiles_is_refused() -> None:
    """One tile and four K steps leave nothing for a second half to read."""
    table = replace(SMALL, mi=(32, 16, 16), wave_tile=(1, 1))
    with pytest.raises(SpecError, match="reads for 0 tiles"):
        lift_table(table)

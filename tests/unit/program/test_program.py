"""The waist: JSON, identity, and every way in which a program can be malformed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pipeloom.declare import Loop, maximum
from pipeloom.declare.kernels import gemm
from pipeloom.drive.pipeline import pipeline
from pipeloom.errors import ConfigError, ScheduleError, SpecError, StructureError
from pipeloom.judge.execute.executor import MOST_EXECUTED, SIZE, Executor
from pipeloom.machine.dtypes import FP16
from pipeloom.machine.gfx950 import GFX950
from pipeloom.order.arrange import arrange
from pipeloom.order.strategy import Exact
from pipeloom.program import (
    Access,
    Affine,
    Barrier,
    Fence,
    Group,
    Layout,
    Move,
    Node,
    Priority,
    Program,
    Provenance,
    Resource,
    Section,
    Space,
    Step,
    TripCount,
    Wait,
    Work,
)
from pipeloom.program.well_formed import MOST_ELEMENTS
from pipeloom.sync import synchronize
from tests.unit.judge.verify.programs import edited, producer_consumer


@pytest.fixture(scope="module")
def program() -> Program:
    arranged = arrange(gemm(64, 64, 32), GFX950, 4, strategy=Exact(1.0))
    return synchronize(arranged.program, barrier_gaps=arranged.barrier_gaps)


def with_steps(program: Program, *steps: Step) -> Program:
    """The program with other steps in its first section."""
    (group,) = program.groups
    first = replace(group.sections[0], steps=steps)
    return replace(program, groups=(Group(group.waves, (first, *group.sections[1:])),))


def first_work(program: Program, node: str) -> Work:
    return next(
        s for g in program.groups for _, _, s in g.steps() if isinstance(s, Work) and s.node == node
    )


# --- counters: once taken on trust, so that these were PROVED ------------------------------------


def _uncounted(step: dict[str, Any]) -> None:
    if step["is"] == "work":
        step.update(counter=None, entries=0)


def _swapped(step: dict[str, Any]) -> None:
    other = {"vmcnt": "lgkmcnt", "lgkmcnt": "vmcnt", None: None}
    if "counter" in step:
        step["counter"] = other[step["counter"]]


def _fourfold(step: dict[str, Any]) -> None:
    if step.get("counter") == "vmcnt":
        key = "entries" if step["is"] == "work" else "count"
        step[key] *= 4


@pytest.mark.parametrize("edit", [_uncounted, _swapped, _fourfold])
def test_counters_are_the_machines_and_not_the_programs(
    program: Program, edit: Callable[[dict[str, Any]], None]
) -> None:
    plain = program.to_dict()
    for group in plain["groups"]:
        for section in group["sections"]:
            if edit is _uncounted:
                section["steps"] = [s for s in section["steps"] if s["is"] != "wait"]
            for step in section["steps"]:
                edit(step)
    with pytest.raises(ScheduleError, match=r"is counted by|\.entries is"):
        Program.from_dict(plain)


def test_each_step_has_one_counter_and_no_more_entries_than_instructions(program: Program) -> None:
    works = {s for g in program.groups for _, _, s in g.steps() if isinstance(s, Work)}
    assert {s.counter for s in works} == {None, "vmcnt", "lgkmcnt"}
    for step in works:
        for counter in {None, "vmcnt", "lgkmcnt"} - {step.counter}:
            entries = 1 if counter else 0
            with pytest.raises(StructureError, match="is counted by"):
                with_steps(program, replace(step, counter=counter, entries=entries))
        if step.counter:
            with pytest.raises(ConfigError, match="entries is"):
                with_steps(program, replace(step, entries=step.entries + 1))
            with_steps(program, replace(step, entries=1))
            with_steps(program, replace(step, entries=99, issues=()))


# --- JSON and identity ----------------------------------------------------------------------------


def test_json_gives_an_equal_program(program: Program) -> None:
    again = Program.from_json(program.to_json())
    assert again == program
    assert again.to_json() == program.to_json()
    assert hash(again.meaning) == hash(program.meaning)


def test_json_keeps_every_kind_of_step(program: Program) -> None:
    steps = (Fence(1, 2, "a"), Priority(3), Barrier(label="stagger"), Wait("vmcnt", 0))
    changed = with_steps(program, *steps)
    again = Program.from_json(changed.to_json())
    assert again.groups[0].sections[0].steps == steps


def test_json_keeps_infinite_starts() -> None:
    loop = Loop("largest", over="k")
    x = loop.stream("X", "f32", k=1, n=256)
    top = loop.carry("m", start=float("-inf"), n=256)
    loop.store("out", top.becomes(maximum(top, x.max("k"))))
    program = arrange(loop, GFX950, 4, strategy=Exact(1.0)).program
    again = Program.from_json(program.to_json())
    assert again.resource("m").start == float("-inf")
    assert again == program


def test_the_hash_ignores_labels_names_and_provenance(program: Program) -> None:
    (group,) = program.groups
    sections = tuple(
        replace(
            section,
            name=f"{section.name}!",
            steps=tuple(
                replace(s, label="?") if isinstance(s, Work | Barrier) else s for s in section.steps
            ),
        )
        for section in group.sections
    )
    other = replace(
        program,
        name="other",
        groups=(Group(group.waves, sections),),
        meaning=replace(program.meaning, name="other"),
        provenance=Provenance("elsewhere", moved=(Move("x", 1),)),
    )
    assert other != program
    assert other.content_hash == program.content_hash


def test_the_hash_ignores_which_generation_a_step_means(program: Program) -> None:
    work = program.groups[0].sections[0].steps[0]
    assert isinstance(work, Work)
    moved = replace(work, writes=tuple(replace(a, generation=7) for a in work.writes))
    steps = (moved, *program.groups[0].sections[0].steps[1:])
    assert with_steps(program, *steps).content_hash == program.content_hash


def test_the_hash_tells_programs_apart_that_run_differently(program: Program) -> None:
    steps = program.groups[0].sections[0].steps
    assert with_steps(program, *steps[:-1]).content_hash != program.content_hash
    fewer = replace(program, trips=(TripCount("T", 1),))
    assert fewer.content_hash != program.content_hash


def test_repr_is_one_line(program: Program) -> None:
    assert repr(program).startswith("<Program gemm: gfx950, 4 waves in 1 group(s), ")
    assert "\n" not in repr(program)


def test_small_questions(program: Program) -> None:
    assert program.waves == 4
    assert program.min_trips == {"T": 0}
    assert str(Affine(3, (("T", 2),))) == "3 + 2 * T"
    assert str(Affine()) == "0"
    assert str(Affine(0, (("T", 1),))) == "T"
    assert Affine(3, (("T", 2),)).at({"T": 4}) == 11
    assert Layout("operand", (("side", 16),))["side"] == 16
    assert Access("x").box(3) is None
    assert first_work(program, "A").part(2) == first_work(program, "A").parts[0]
    assert replace(first_work(program, "A"), parts=()).part(0) is None


def test_a_step_that_names_no_counter_has_no_entries() -> None:
    step = Work(node="A", label="bare", iteration=0)
    assert (step.counter, step.entries, step.sure_entries) == (None, 0, 0)


# --- files that are none --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda d: d.pop("format"), "program format None"),
        (lambda d: d.update(format=2), "program format 2"),
        (lambda d: d.update(colour="red"), "Program has no key 'colour'"),
        (lambda d: d.pop("trips"), "Program lacks trips"),
        (lambda d: d["groups"][0]["sections"][0]["steps"][0].pop("is"), "says no is of work"),
        (lambda d: d["groups"][0].update(waves=3), r"groups\[0\].waves is 3, but must be a list"),
    ],
)
def test_bad_data_is_named(
    program: Program, change: Callable[[dict[str, Any]], object], match: str
) -> None:
    data = json.loads(program.to_json())
    change(data)
    with pytest.raises(SpecError, match=match) as caught:
        Program.from_dict(data)
    assert caught.value.hint


def test_bad_json_is_named() -> None:
    with pytest.raises(SpecError, match="not a program"):
        Program.from_json("{")
    with pytest.raises(SpecError, match="program format None"):
        Program.from_json("[]")


# --- malformed programs ---------------------------------------------------------------------------


def _wave_missing(p: Program) -> Program:
    return replace(p, groups=(Group((0, 1, 3), p.groups[0].sections),))


def _no_waves(p: Program) -> Program:
    return replace(p, groups=())


def _resource_twice(p: Program) -> Program:
    return replace(p, resources=(*p.resources, p.resources[0]))


def _resource_named_like_memory(p: Program) -> Program:
    return replace(p, resources=(*p.resources, replace(p.resources[0], name="A")))


def _unknown_counter(p: Program) -> Program:
    return with_steps(p, Wait("vscnt", 0))


def _negative_wait(p: Program) -> Program:
    return with_steps(p, Wait("vmcnt", -1))


def _unknown_barrier(p: Program) -> Program:
    return with_steps(p, Barrier("cluster"))


def _barrier_without_phases(p: Program) -> Program:
    return with_steps(p, Barrier(arrive_only=True))


def _unknown_node(p: Program) -> Program:
    return with_steps(p, replace(first_work(p, "A"), node="Z"))


def _part_out_of_range(p: Program) -> Program:
    return with_steps(p, replace(first_work(p, "A"), parts=(((0, 65), (0, 32)),)))


def _part_of_other_rank(p: Program) -> Program:
    return with_steps(p, replace(first_work(p, "A"), parts=(((0, 64),),)))


def _parts_per_wave(p: Program) -> Program:
    box = ((0, 16), (0, 32))
    return with_steps(p, replace(first_work(p, "A"), parts=(box, box)))


def _no_entries(p: Program) -> Program:
    return with_steps(p, replace(first_work(p, "A"), entries=0))


def _work_of_unknown_counter(p: Program) -> Program:
    return with_steps(p, replace(first_work(p, "A"), counter="vscnt"))


def _unknown_resource(p: Program) -> Program:
    return with_steps(p, replace(first_work(p, "A"), writes=(Access("lds Q"),)))


def _box_out_of_range(p: Program) -> Program:
    access = Access("lds A0", (((0, 33), (0, 32)),))
    return with_steps(p, replace(first_work(p, "A"), writes=(access,)))


def _boxes_per_wave(p: Program) -> Program:
    box = ((0, 16), (0, 32))
    access = Access("lds A0", (box, box, box))
    return with_steps(p, replace(first_work(p, "A"), writes=(access,)))


def _copy_out_of_range(p: Program) -> Program:
    access = Access("lds A0", copy=p.resource("lds A0").copies)
    return with_steps(p, replace(first_work(p, "A"), writes=(access,)))


def _memory_has_one_copy(p: Program) -> Program:
    return with_steps(p, replace(first_work(p, "A"), reads=(Access("A", copy=1),)))


def _slices(p: Program, reads: bool, writes: bool, **changed: Any) -> Program:
    """A copy of A to LDS, of a slice per wave where ``shared``."""
    step = first_work(p, "A")
    (read,), (written,) = step.reads, step.writes
    step = replace(
        step, reads=(replace(read, shared=reads),), writes=(replace(written, shared=writes),)
    )
    return with_steps(p, replace(step, **changed))


def _slice_to_what_is_no_slice(p: Program) -> Program:
    return _slices(p, reads=True, writes=False)


def _slice_computed_with(p: Program) -> Program:
    _slices(p, reads=True, writes=True)  # the copy of it is fine
    return _slices(p, reads=True, writes=True, is_copy=False)


def _slice_added_to(p: Program) -> Program:
    into = first_work(p, "A").writes[0]
    return _slices(p, reads=False, writes=False, accumulates=(replace(into, shared=True),))


def _types_of_two_instructions(p: Program) -> Program:
    nodes = (
        replace(n, type=replace(n.type, dtype=FP16)) if n.name == "B" else n
        for n in p.meaning.nodes
    )
    return replace(p, meaning=replace(p.meaning, nodes=tuple(nodes)))


def _unknown_trips(p: Program) -> Program:
    (group,) = p.groups
    section = Section(name="more", steps=(), trips="U")
    return replace(p, groups=(Group(group.waves, (*group.sections, section)),))


def _unknown_trips_in_first(p: Program) -> Program:
    (group,) = p.groups
    section = Section(name="more", steps=(), first=Affine(0, (("V", 1),)))
    return replace(p, groups=(Group(group.waves, (*group.sections, section)),))


def _copies_without_end(p: Program) -> Program:
    return replace(p, resources=tuple(replace(r, copies=10**9) for r in p.resources))


def _value_without_end(p: Program) -> Program:
    def long(node: Node) -> Node:
        shape = tuple(1 << 17 if size == 64 else size for size in node.type.shape)
        return replace(node, type=replace(node.type, shape=shape))

    return replace(p, meaning=replace(p.meaning, nodes=tuple(map(long, p.meaning.nodes))))


def _iterations_without_end(p: Program) -> Program:
    return replace(p, iterations=replace(p.iterations, constant=10**9))


def _iterations_per_trip_without_end(p: Program) -> Program:
    return replace(p, iterations=Affine(0, ((p.trips[0].name, 10**6),)))


def _least_trips_without_end(p: Program) -> Program:
    return replace(p, trips=tuple(replace(count, least=10**6) for count in p.trips))


def _instructions_without_end(p: Program) -> Program:
    step = first_work(p, "A")
    issues = tuple(replace(issue, count=10**6) for issue in step.issues)
    return with_steps(p, replace(step, issues=issues))


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (_wave_missing, StructureError, r"the groups hold waves \[0, 1, 3\]"),
        (_no_waves, StructureError, r"the groups hold waves \[\]"),
        (_resource_twice, StructureError, "names two places"),
        (_resource_named_like_memory, StructureError, "'A' names two places"),
        (_unknown_counter, ConfigError, "gfx950 has no counter 'vscnt'"),
        (_negative_wait, ConfigError, r"prologue\[0\]\.count is -1"),
        (_unknown_barrier, ConfigError, "gfx950 has no barrier 'cluster'"),
        (_barrier_without_phases, StructureError, "'workgroup', which has no phases on gfx950"),
        (_unknown_node, ScheduleError, "has no value 'Z'"),
        (_part_out_of_range, StructureError, r"prologue\[0\] 'load A\d' works on .* no part of"),
        (_part_of_other_rank, StructureError, "which is no part of"),
        (_parts_per_wave, StructureError, "has 2 boxes for 4 waves"),
        (_no_entries, ConfigError, r"prologue\[0\]\.entries is 0"),
        (_work_of_unknown_counter, ConfigError, "gfx950 has no counter 'vscnt'"),
        (_unknown_resource, StructureError, "has no resource 'lds Q'"),
        (_box_out_of_range, StructureError, r"touches \(\(0, 33\), \(0, 32\)\) of lds A0"),
        (_boxes_per_wave, StructureError, "has 3 boxes for 4 waves"),
        (_copy_out_of_range, ConfigError, r"prologue\[0\]\.copy is \d"),
        (_memory_has_one_copy, ConfigError, r"prologue\[0\]\.copy is 1"),
        (_slice_to_what_is_no_slice, StructureError, "slice per wave"),
        (_slice_computed_with, StructureError, "slice per wave"),
        (_slice_added_to, StructureError, "slice per wave"),
        (_types_of_two_instructions, StructureError, "bf16 by fp16, which 16x16x32_f16 does not"),
        (_unknown_trips, StructureError, "section 'more' counts trips by U"),
        (_unknown_trips_in_first, StructureError, "section 'more' counts trips by V"),
        (_copies_without_end, StructureError, r"resources\.\S+ has [\d,]+ elements"),
        (_value_without_end, StructureError, r"meaning\.\S+ has [\d,]+ elements"),
        (_iterations_without_end, ConfigError, "iterations is 1000000000"),
        (_iterations_per_trip_without_end, ConfigError, "iterations is 1000000"),
        (_least_trips_without_end, ConfigError, r"trips\.\S+\.least is 1000000"),
        (_instructions_without_end, ConfigError, r"prologue\[0\]\.issues\.count is 1000000"),
    ],
)
def test_malformed_programs_are_refused(
    program: Program,
    change: Callable[[Program], Program],
    error: type[ScheduleError],
    match: str,
) -> None:
    with pytest.raises(error, match=match) as caught:
        change(program)
    assert caught.value.hint


def test_a_draft_is_checked_when_it_becomes_a_program(program: Program) -> None:
    fields = {name: getattr(program, name) for name in Program.__dataclass_fields__}
    drafted = Program.draft(**fields)
    assert drafted == program
    assert replace(drafted) == program
    group = program.groups[0]
    twice = drafted.with_groups((group, group), program.provenance)
    assert twice.waves == 2 * len(group.waves)
    with pytest.raises(StructureError, match="exactly one group"):
        replace(twice)


def test_a_resource_has_copies_and_bytes(program: Program) -> None:
    item = program.resource("lds A0")
    assert item.bytes == item.copies * 32 * 32 * 2
    with pytest.raises(ConfigError, match="copies is 0"):
        Resource(name="x", space=Space.LDS, type=item.type, copies=0)


def test_what_a_workgroup_holds_is_counted_with_copies_and_waves(program: Program) -> None:
    """As much as a program may hold is let through, whoever holds it."""
    (group,) = program.groups
    used = sum(
        r.copies * r.type.elements * (1 if r.space is Space.LDS else len(group.waves))
        for r in program.resources
    )
    one = replace(program.resources[0].type, dims=("x",), shape=(1,))
    left = MOST_ELEMENTS - used
    for space, waves in ((Space.LDS, 1), (Space.REGISTER, 4)):
        more = Resource(name="more", space=space, type=one, copies=left // waves)
        replace(program, resources=(*program.resources, more))
        more = replace(more, copies=left // waves + 1)
        with pytest.raises(StructureError, match=r"resources\.more") as caught:
            replace(program, resources=(*program.resources, more))
        assert caught.value.field == "resources.more"


def test_execute_runs_what_it_can_hold(program: Program) -> None:
    """Larger ones are programs, and are proved without a run."""
    one = replace(program.resources[0].type, dims=("x",), shape=(1,))
    more = Resource(name="more", space=Space.LDS, type=one, copies=MOST_EXECUTED)
    large = replace(program, resources=(*program.resources, more))
    with pytest.raises(ConfigError, match="at most") as caught:
        Executor(large)
    assert caught.value.field == SIZE


def test_a_copy_writes_as_much_as_it_reads() -> None:
    """A fragment turned round was PROVED, and no program to execute."""
    data = pipeline(gemm(32, 32, 32), "gfx950", 2).to_dict()
    fragments = [r for r in data["resources"] if r["name"].endswith(".0.0")]
    assert fragments
    for resource in fragments:
        resource["type"]["dims"].reverse()
        with pytest.raises(StructureError, match=r"reads .* and writes"):
            Program.from_dict(data)
        resource["type"]["dims"].reverse()
    Program.from_dict(data)


def test_how_long_a_counted_step_takes_is_where_it_goes() -> None:
    """To global memory, if it touches any; else to LDS."""
    program = producer_consumer()
    steps = {s.label: s for g in program.groups for _, _, s in g.steps() if isinstance(s, Work)}
    target = program.target
    assert program.latency(steps["fill"]) == target.global_latency.value
    assert program.latency(steps["fetch"]) == target.lds_latency.value
    assert program.latency(replace(steps["fetch"], latency=7)) == 7


@pytest.mark.parametrize("place", ["R", "buffer"])
def test_waves_share_one_box_of_lds(place: str) -> None:
    program = producer_consumer()
    halves = (((0, 1), (0, 4)), ((0, 1), (4, 8)))
    whole = Access("R", shared=True)
    shared = whole if place == "R" else Access("buffer", halves, shared=True)

    def edit(steps: list[Step]) -> None:
        at, fetch = next((n, s) for n, s in enumerate(steps) if isinstance(s, Work))
        to = replace(fetch, writes=(shared,))
        steps[at] = to if place == "R" else replace(fetch, reads=(shared,))

    with pytest.raises(StructureError, match=f"shares {place}"):
        edited(program, 1, "loop", edit)

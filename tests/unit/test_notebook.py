"""What results look like at a prompt and in a notebook: one short line, one small fragment."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

import pipeloom as pl
from pipeloom import CompiledSchedule, ModuloProblem, build_schedule, emit, verify
from pipeloom.drive.programs import as_program, simulate
from pipeloom.judge.simulate import Trace
from pipeloom.notebook import SHOWN, fragment
from pipeloom.order.in_order import in_order
from pipeloom.order.modulo import solve_modulo
from pipeloom.order.pattern import Pattern

TILE = ["geometry.BK=64", "geometry.MMA_K=32", "geometry.elem_bytes=2"]


MARKUP = {"div", "b", "table", "tr", "th", "td"}
DRAWN = {"style", "svg", "text", "path", "p", "span", "i"}
ATTRIBUTES = {"class", "viewbox", "role", "aria-label", "x", "y", "d"}
"""Nothing that runs or asks for anything."""


class Balanced(HTMLParser):
    """Counts tags, keeps the text, and fails on a tag that closes another."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.append(tag)
        assert {name for name, _ in attrs} <= ATTRIBUTES
        assert tag in DRAWN or not attrs or ("class", "pipeloom-timeline") in attrs

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


@pytest.fixture(scope="module")
def compiled() -> CompiledSchedule:
    return build_schedule("ping_pong", TILE)


@pytest.fixture(scope="module")
def trace(compiled: CompiledSchedule) -> Trace:
    return simulate(compiled, k_tiles=16)


def small(html: str) -> Balanced:
    """The fragment read back, once it is known to be compact and to ask for nothing."""
    assert len(html) < 4000
    found = Balanced(html)
    assert set(found.seen) <= MARKUP
    return found


def drawn(html: str) -> Balanced:
    """The same of a fragment with a timeline."""
    assert len(html) < 100_000
    found = Balanced(html)
    assert set(found.seen) <= MARKUP | DRAWN
    assert found.seen.count("svg") == 1
    assert "prefers-color-scheme:dark" in html
    assert not re.search(r"url\(|@import|https?:|<script|\son\w+=", html)
    return found


def test_a_compiled_schedule(compiled: CompiledSchedule) -> None:
    assert repr(compiled) == "<CompiledSchedule ping_pong: 24 ops, 10 + 70 + 58 entries>"
    shown = drawn(compiled._repr_html_())
    assert "wave 7\n" in shown.text
    assert "tile 256x256x64, csp order, makespan 420, proved least" in shown.text
    assert shown.seen.count("tr") == 4
    assert "kernel\n70\n10\n16\n" in shown.text


def test_a_schedule_without_tile_or_proof(compiled: CompiledSchedule) -> None:
    bare = replace(compiled, geometry=None, certificate=replace(compiled.certificate, proved=False))
    text = small(bare._repr_html_()).text
    assert "no tile shape, csp order, makespan 420\n" in text


def test_a_verdict(compiled: CompiledSchedule) -> None:
    verdict = verify(compiled)
    assert repr(verdict) == "<Verdict TIMING on ping_pong: 4 findings>"
    shown = small(verdict._repr_html_())
    assert shown.text.startswith("TIMING\n ping_pong; ")
    shortest = verdict.shortest()
    assert shortest is not None
    assert shortest.counterexample is not None
    steps = shortest.counterexample.steps
    assert shown.seen.count("tr") == 5 + 1 + len(steps)
    assert [shown.text.index(step.text) for step in steps] == sorted(
        shown.text.index(step.text) for step in steps
    )
    assert shown.text.count("unordered, margin ") == len(verdict.findings)


def test_a_proof_has_no_table() -> None:
    verdict = verify(build_schedule("four_wave", sync="proven", reorder=True))
    assert repr(verdict) == "<Verdict PROVED on four_wave: 0 findings>"
    assert small(verdict._repr_html_()).seen == ["div", "b"]


def test_a_race_without_margin() -> None:
    text = small(verify(build_schedule("single_buffer"))._repr_html_()).text
    assert text.startswith("RACE\n single_buffer; ")


def test_parts_of_a_program(compiled: CompiledSchedule) -> None:
    program = as_program(compiled)
    (group, *_) = program.groups
    for one in (program, group, group.sections[0], program.target):
        assert len(repr(one)) < 120
    assert "waves 0, 1, 2, 3" in repr(group)
    assert "gfx950" in repr(program.target)


def test_a_program(compiled: CompiledSchedule) -> None:
    shown = drawn(as_program(compiled)._repr_html_())
    assert shown.text.startswith("ping_pong\n on gfx950, 8 waves; computes 2 + 2 * T iterations")
    assert "4, 5, 6, 7\nloop\nT\n24\n10\n16\n" in shown.text


def test_results_print_short(compiled: CompiledSchedule, trace: Trace) -> None:
    """Whatever a public verb gives, however much it holds, is a line or two at a prompt."""
    target, loop = pl.target_for("gfx950"), pl.kernels.gemm(32, 32, 32)
    program = pl.pipeline(loop, target, 1, strategy=in_order)
    kernel = pl.emit(program)
    depth = program.iterations.at(program.min_trips)
    results = (
        *(compiled, trace, loop, program, program.meaning, kernel, kernel.launch),
        pl.kernels.attention(64, 64, 64).meaning,
        pl.Derived(program, 32.0, 32, "matrix unit", 32, Pattern(), 1),
        verify(program),
        pl.execute(program, trips=1),
        pl.execute(as_program(compiled), trips=1),
        pl.run(kernel, sizes={"m": 32, "n": 32, "k": 32 * depth}),
        pl.fix(program),
        pl.compare(["single_buffer:tile=bf16", "single_buffer:sync=proven"]),
        pl.solve("single_buffer"),
    )
    assert {type(r).__name__: len(repr(r)) for r in results if len(repr(r)) > 500} == {}


def test_an_outcome(compiled: CompiledSchedule) -> None:
    wrong = pl.execute(as_program(compiled), trips=1)
    assert f"{len(wrong.wrong)} wrong" in repr(wrong)
    assert small(wrong._repr_html_()).seen.count("tr") == 1 + SHOWN
    right = pl.execute(
        as_program(build_schedule("four_wave", sync="proven", reorder=True)), trips=1
    )
    assert "correct" in repr(right)


def test_a_trace(trace: Trace) -> None:
    assert repr(trace) == f"<Trace on gfx950: 8 waves, 7 trips, {trace.total_cycles} cycles>"
    shown = drawn(trace._repr_html_())
    assert f"{trace.steady_cycles_per_iteration:.0f} per trip" in shown.text
    assert "limited by matrix" in shown.text
    assert shown.seen.count("tr") == 1 + SHOWN
    assert "more" in shown.text


def test_a_trace_without_a_loop(compiled: CompiledSchedule) -> None:
    trace = simulate(compiled, k_tiles=2)
    assert repr(trace).startswith("<Trace on gfx950: 8 waves, 0 trips, ")
    assert "0 per trip, matrix unit 0.0% busy, limited by none" in trace._repr_html_()


def test_an_emitted_kernel() -> None:
    kernel = emit(build_schedule("four_wave", TILE, sync="repaired", reorder=True))
    text = repr(kernel)
    assert text.startswith(f"<EmittedKernel {kernel.name} for gfx950: PROVED, ")
    assert len(text) < 100
    shown = drawn(kernel._repr_html_())
    assert f"{kernel.resources}" in shown.text
    assert "mma (0,0)" in shown.text
    assert "conversion of C" not in shown.text, "one trip of the loop"


def test_a_declaration_is_compiled_and_drawn(compiled: CompiledSchedule) -> None:
    spec = {"schedule": "ping_pong", "geometry": {"BK": 64, "MMA_K": 32, "elem_bytes": 2}}
    shown = drawn(pl.load_spec(spec)._repr_html_())
    assert "tile 256x256x64; 24 ops" in shown.text
    same = re.search(r"<svg.*</svg>", compiled._repr_html_())
    assert same is not None
    assert same[0] in pl.load_spec(spec)._repr_html_()
    small(pl.load_spec({"schedule": "ping_pong"})._repr_html_())


def test_a_declaration_that_is_wrong_says_so() -> None:
    class Wrong(pl.PipelineSchedule):
        def config(self) -> pl.PipelineConfig:
            raise NotImplementedError

        def build_body(self) -> list[pl.OpDesc]:
            raise pl.ConfigError("no <ops>", hint="give some")

    assert "no <ops>" in small(Wrong()._repr_html_()).text


def test_a_loop_and_what_is_derived_from_it() -> None:
    loop = pl.kernels.gemm(32, 32, 32)
    assert "C.next\nmatmul\nA, B, C\n" in small(loop._repr_html_()).text
    program = pl.pipeline(loop, pl.target_for("gfx950"), 1, strategy=in_order)
    derived = pl.Derived(program, 32.0, 32, "matrix unit", 32, Pattern(), 1)
    assert "matrix unit bound 32" in drawn(derived._repr_html_()).text


def test_names_of_steps_cannot_become_markup(compiled: CompiledSchedule) -> None:
    hostile = "</text><script>alert(1)</script>"

    def renamed(step: pl.Step) -> pl.Step:
        return replace(step, label=hostile) if isinstance(step, pl.Work) else step

    program = as_program(compiled)
    groups = tuple(
        replace(
            group,
            sections=tuple(
                replace(section, steps=tuple(map(renamed, section.steps)))
                for section in group.sections
            ),
        )
        for group in program.groups
    )
    named = replace(program, groups=groups, name=hostile)
    text = drawn(named._repr_html_()).text
    assert hostile in text


def test_a_run_without_a_loop_is_drawn_whole(compiled: CompiledSchedule) -> None:
    assert "the whole run" in drawn(simulate(compiled, k_tiles=2)._repr_html_()).text


def test_a_modulo_result() -> None:
    problem = ModuloProblem.from_dict(
        {
            "name": "tiny",
            "units": [{"name": "u", "capacity": 1}],
            "ops": [
                {"name": "a", "latency": 4, "uses": [{"unit": "u"}]},
                {"name": "b", "latency": 1, "uses": [{"unit": "u"}]},
            ],
            "edges": [{"from": "a", "to": "b", "latency": 4}],
        }
    )
    result = solve_modulo(problem)
    assert repr(result) == "<ModuloResult tiny: II 2 (proved), 2 ops, 3 stages>"
    bounded = replace(result, proved=False, lower_bound=1)
    assert repr(bounded) == "<ModuloResult tiny: II 2 (at least 1), 2 ops, 3 stages>"


def test_texts_cannot_become_markup() -> None:
    html = fragment("<script>", "a & b", ["<i>"], [["<img src=x>", 1.25]])
    assert "<script" not in html
    assert "<img" not in html
    assert Balanced(html).text == "<script>\n a & b\n<i>\n<img src=x>\n1.2\n"

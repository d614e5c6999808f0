"""The assembly on the page: the kernel's own text, each line with its step and its times."""

from __future__ import annotations

from itertools import chain, repeat
from typing import Any

import pytest

from pipeloom.drive.emitting import EmitJob, emit
from pipeloom.drive.reporting import simulation_page
from pipeloom.drive.simulating import SimulateJob, Simulation, prepare
from pipeloom.drive.sources import Source
from pipeloom.judge.simulate import simulate_stream
from pipeloom.show.page_data import node_text
from pipeloom.show.stream_page import stream_page
from pipeloom.write import EmittedKernel


def paged(**options: Any) -> tuple[Simulation, dict[str, Any]]:
    asked = Source("ping_pong", ("minimal_barriers=true",), default_tile="bf16")
    simulation = prepare(SimulateJob(asked, 8, **options))
    verdict = simulation.verdict()
    return simulation, simulation_page(simulation, simulation.run(), verdict)


@pytest.fixture(scope="module")
def emitted() -> tuple[EmittedKernel, dict[str, Any]]:
    simulation, page = paged(emitted=True)
    assert simulation.emission is not None
    return simulation.emission.kernel, page


def lines_of(page: dict[str, Any]) -> list[tuple[int, str, int]]:
    """Line of the text, text, entry: as the page's script unpacks them."""
    found = page["assembly"]
    numbers = chain.from_iterable(range(first, first + count) for first, count in found["number"])
    entries = chain.from_iterable(repeat(entry, count) for entry, count in found["entry"])
    texts = [found["texts"][number] for number in found["text"]]
    return list(zip(numbers, texts, entries, strict=True))


def test_lines_are_those_of_the_text(emitted: tuple[EmittedKernel, dict[str, Any]]) -> None:
    kernel, page = emitted
    text = kernel.text.splitlines()
    lines = lines_of(page)
    assert all(text[number - 1].strip() == shown for number, shown, _ in lines)
    shown = {number for number, *_ in lines}
    assert shown >= kernel.line_map.keys(), "every instruction"
    labels = [line for line in text if line.startswith(".L") and line.endswith(":")]
    assert [shown for _, shown, _ in lines if shown.startswith(".L")] == labels


def test_lines_lead_to_their_steps(emitted: tuple[EmittedKernel, dict[str, Any]]) -> None:
    kernel, page = emitted
    names = [section for section, *_ in page["sections"]]
    served = set()
    for number, _, entry in lines_of(page):
        source = kernel.line_map.get(number)
        if source is None or source.entry is None:
            assert entry == -1
            continue
        served.add(entry)
        section, slot, label, role = page["entries"][entry][:4]
        place, _, what = source.entry.partition(" ")
        if not page["entries"][entry][6]:
            assert place in (f"{names[section]}[{slot}]", f"{names[section]}[{slot + 1}]")
        if role in ("matrix", "load", "lds_read"):
            assert label.startswith(what)
    waits = {n for n, entry in enumerate(page["entries"]) if entry[3] in ("matrix", "load", "wait")}
    assert served >= waits


def test_groups_have_code_of_their_own(emitted: tuple[EmittedKernel, dict[str, Any]]) -> None:
    _, page = emitted
    lines, (first, second) = lines_of(page), page["assembly"]["groups"]
    assert any("group_1" in text for _, text, _ in lines[first:second])
    assert {e for *_, e in lines[first:second]} & {e for *_, e in lines[second:]} > {-1}


def test_bars_know_their_lines(emitted: tuple[EmittedKernel, dict[str, Any]]) -> None:
    _, page = emitted
    lines, run = lines_of(page), page["timeline"]
    assert len(run["lines"]) == len(run["segments"])
    for segment, known in zip(run["segments"], run["lines"], strict=True):
        count = len(segment[13]) // 2
        numbers = known if isinstance(known, list) else list(range(known, known + count))
        assert len(numbers) == count
        assert {lines[n][2] for n in numbers} == {segment[1]}
        if segment[3] == 0:
            assert any(lines[n][1].startswith("v_mfma") for n in numbers)


def test_registers_and_lines_are_those_of_the_program_shown() -> None:
    """Not of the proved form that ``emit`` would choose instead, which needs fewer."""
    simulation, page = paged()
    own = {name: value for value, name, *_ in page["headline"]}["VGPRs + AGPRs used"]
    assert simulation.verdict().status.name == "RACE"
    other = emit(EmitJob(Source("ping_pong", ("minimal_barriers=true",)))).kernel.resources
    assert own != f"{other.vgprs} + {other.agprs}"
    assert page["assembly"] is None
    assert page["unwritten"].startswith("RACE")


def test_what_is_only_timing_has_its_assembly() -> None:
    simulation = prepare(SimulateJob(Source("ping_pong", default_tile="fp16"), 8))
    page = simulation_page(simulation, simulation.run(), simulation.verdict())
    assert page["assembly"]["name"] == "ping_pong_fp16_fp16"
    assert page["timeline"]["lines"] == [], "bars of steps, not of instructions"
    assert any("_f16 " in text for text in page["assembly"]["texts"])


def test_declared_values_in_a_line() -> None:
    meaning = prepare(SimulateJob(Source("ping_pong", default_tile="bf16"))).program.meaning
    assert node_text(meaning["C.next"], sized=False) == "C.next = matmul(A, B) + C, f32"
    assert "256x256" in node_text(meaning["C.next"])
    assert "per iteration" in node_text(meaning["A"])
    assert "before" in node_text(meaning["C"])
    assert "stored" in node_text(meaning["out"])


def test_streams_know_their_lines() -> None:
    trace = simulate_stream("R2 wl0\n(M2 w)x2\nbranch", iterations=8)
    page = stream_page("loop", trace, trace)
    assert [entry[8] for entry in page["entries"]] == [
        *["line 1"] * 3,
        *["line 2", "line 2", ""] * 2,
        "line 3",
    ]
    assert page["meta"]["shape"].endswith(" MFMA")

"""What PROVED says is said with it, and follows from the program."""

from __future__ import annotations

import re
from dataclasses import replace

from pipeloom.declare import Loop
from pipeloom.declare.functions import within
from pipeloom.judge.check.verdict import (
    CheckFinding,
    CheckKind,
    CheckStatus,
    CheckVerdict,
    Site,
)
from pipeloom.judge.verify import verify
from pipeloom.machine.dtypes import F32
from pipeloom.program import Access, Program, Work
from pipeloom.program.idle import Inputs
from pipeloom.show.page_data import _meaning
from tests.unit.judge.verify.programs import changed, lowered


def weighted(by_resident: bool) -> Program:
    """A masked sum; times a resident, whose infinity would make NaN of a zero past the end."""
    loop = Loop("weighted", over="k")
    x = within(loop.stream("X", F32, k=1, n=4), loop.left("k", 1)).sum("k")
    total = loop.carry("total", F32, start=0, n=4)
    total = total.becomes(total + (x * loop.resident("R", F32, n=4) if by_resident else x))
    loop.store("out", total)
    return lowered_left(loop)


def lowered_left(loop: Loop) -> Program:
    """What is left is a number, which a step reads by its name."""
    base, left = lowered(loop.as_written), f"{loop.as_written.over} left"
    section = base.groups[0].sections[1]
    reads = next(s.reads for s in section.steps if isinstance(s, Work) and s.label == "within")
    named = changed(base, "loop", "within", reads=(reads[0], Access(left)))
    return replace(named, resources=tuple(r for r in base.resources if r.name != f"r.{left}"))


def test_all_values_or_finite_ones() -> None:
    for by_resident in (False, True):
        verdict = verify(weighted(by_resident))
        assert verdict.proved
        assert verdict.inputs is (Inputs.FINITE if by_resident else Inputs.ALL)
        assert ("finite values" in verdict.claim) is by_resident
        assert verdict.claim in verdict.summary()
        assert verdict.to_dict()["claim"] == verdict.claim
        assert verdict.claim[1:] in _meaning(verdict)
        assert verdict.claim in verdict._repr_html_()


def test_what_is_not_proved_claims_nothing() -> None:
    program = weighted(False)
    late = changed(program, "after", "store out", reads=(Access("r.sum"),))
    verdict = verify(late)
    assert not verdict.proved
    assert verdict.claim == verdict.to_dict()["claim"] == ""
    assert "computing its declaration" not in verdict.summary()


def test_of_a_kernel_of_others_nothing_is_said_about_what_it_computes() -> None:
    proved = CheckVerdict("k", "gfx950", CheckStatus.PROVED)
    assert "nothing about what it computes" in proved.claim
    assert proved.claim in proved.summary()
    assert proved.to_dict()["claim"] == proved.claim
    assert CheckVerdict("k", "gfx950", CheckStatus.RACE).claim == ""


def test_counts_of_findings_add_up() -> None:
    """Those of each status in the first line; in all as many as there are."""
    site = Site(0, "ds_read_b32")
    found = [
        CheckFinding(CheckKind.RAW, status, site, "")
        for status in (*[CheckStatus.RACE] * 3, *[CheckStatus.TIMING] * 2)
    ]
    said = CheckVerdict("k", "gfx950", CheckStatus.RACE, tuple(found)).summary()
    assert [int(n) for n in re.findall(r"\d+", said)] == [5, 3, 2]
    one = CheckVerdict("k", "gfx950", CheckStatus.RACE, tuple(found[:3])).summary()
    assert re.findall(r"\d+", one) == ["3"]

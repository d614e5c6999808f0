"""docs/verdicts.md shows what the code prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pipeloom import build_schedule
from pipeloom.judge.verify.schedules import verify
from pipeloom.reference.kernels import kernel_for
from pipeloom.reference.ops import OpRole

PAGE = (Path(__file__).parents[4] / "docs" / "verdicts.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of the page in one language."""
    fences: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.S | re.M)
    return [text for found, text in fences if found == language]


def test_the_sample_finding_is_what_the_snippet_prints() -> None:
    snippet, sample = blocks("python")[0], blocks("")[0]
    call = "print(verdict.shortest().describe())"
    assert f"`{call}`" in PAGE
    printed: list[str] = []
    names: dict[str, Any] = {"print": printed.append}
    exec(snippet + call, names)
    summary, finding = printed
    assert summary == verify(build_schedule("four_wave")).summary()
    assert sample == finding + "\n"


def test_a_fragment_of_sub_1_reads_half_0_in_the_ping_pong_only() -> None:
    """What the page says about sub and half."""
    assert "name\n`fragment A(stage 0, sub 1)`" in PAGE
    read: dict[str, set[int]] = {}
    for name in ("ping_pong", "four_wave"):
        compiled = build_schedule(name)
        kernel = kernel_for(compiled)
        read[name] = {
            look.region.half
            for step in kernel.walk(compiled, 0, 1)
            if step.op.role is OpRole.FRAGMENT_LOAD and step.op.subtile == 1
            for look in kernel.effect(step, 0).lds_reads
        }
    assert read == {"ping_pong": {0}, "four_wave": {1}}

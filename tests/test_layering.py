"""Who may import whom. Nothing that reads ``compiled``, the waist, may import what builds it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "pipeloom"

VALUES = (
    "errors",
    "checks",
    "ops",
    "plain",
    "costs",
    "config",
    "graph",
    "blocks",
    "geometry",
    "tile",
)
WAIST = (*VALUES, "compiled")
BUILD = (
    "edges",
    "strategies",
    "declare",
    "reorder",
    "hints",
    "targets",
    "modulo",
    "pipelining",
)
CONSUME = (*WAIST, "targets", "kernels")

ALLOWED: dict[str, tuple[str, ...]] = {
    "errors": (),
    "checks": ("errors",),
    "ops": ("errors", "checks"),
    "plain": ("errors", "checks"),
    "costs": ("errors", "checks", "ops"),
    "config": ("errors", "checks", "ops", "costs"),
    "graph": ("errors", "checks", "ops"),
    "geometry": ("errors", "checks"),
    "tile": ("errors", "checks", "geometry"),
    "modulo": ("errors",),
    "pipelining": (*WAIST, "targets", "kernels", "modulo"),
    "blocks": ("errors", "checks", "ops"),
    "compiled": VALUES,
    "edges": ("errors", "checks", "ops", "costs", "config", "graph"),
    "targets": VALUES,
    "strategies": WAIST,
    "hints": WAIST,
    "declare": (*WAIST, "edges", "pipelining", "kernels"),
    "reorder": (*WAIST, "edges", "strategies"),
    "schedules": (*WAIST, *BUILD),
    "notes": VALUES,
    "waits": VALUES,
    "structure": VALUES,
    "program": (*VALUES, "waits", "structure"),
    "phases": WAIST,
    "compiler": (
        *WAIST,
        "kernels",
        "declare",
        "strategies",
        "program",
        "phases",
        "notes",
        "synchronize",
        "pipelining",
    ),
    "spec": (*WAIST, "declare", "compiler", "schedules"),
    "kernels": WAIST,
    "verify": CONSUME,
    "synchronize": (*CONSUME, "verify"),
    "simulate": CONSUME,
    "execute": CONSUME,
    "elf": (),
    "wait_states": (),
    "emulate": ("errors", "elf", "wait_states"),
    "emit": (*CONSUME, "verify", "elf", "wait_states"),
    "trial": ("errors", "emit", "emulate"),
    "emitted_stream": ("errors", "geometry", "targets", "emit", "simulate"),
    "weaken": WAIST,
    "report": (*CONSUME, "verify", "simulate", "modulo"),
    "cli": ("*",),
    "__init__": ("*",),
    "__main__": ("cli",),
}
"""Package -> what it may import of ours. A new package needs a line here, on purpose."""


def _unit(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module]
            if node.module == "pipeloom":
                names = [f"pipeloom.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {n.split(".")[1] for n in names if n.startswith("pipeloom.")}
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.name))
def test_imports_respect_the_layers(path: Path) -> None:
    unit = _unit(path)
    assert unit in ALLOWED, f"add {unit} to ALLOWED and say in docs/design.md where it belongs"
    allowed = ALLOWED[unit]
    if "*" in allowed:
        return
    illegal = _imports(path) - set(allowed) - {unit}
    assert not illegal, f"{path.relative_to(SOURCE)} may not import {sorted(illegal)}"


def test_every_layer_exists() -> None:
    units = {_unit(path) for path in SOURCE.rglob("*.py")}
    assert units == set(ALLOWED)


def test_the_layers_have_no_cycle() -> None:
    graph = {unit: {a for a in allowed if a != "*"} for unit, allowed in ALLOWED.items()}
    done: set[str] = set()
    while ready := [u for u, needs in graph.items() if u not in done and needs <= done]:
        done |= set(ready)
    assert done == set(graph)


def test_the_design_page_places_every_layer() -> None:
    page = (Path(__file__).parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    picture = page.split("```")[1]
    words = set(picture.replace(":", " ").split())
    assert not {unit for unit in ALLOWED if not unit.startswith("_")} - words

"""Draw the pictures of the README from real output: ``python docs/make_pictures.py``."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console

from pipeloom import build_schedule
from pipeloom.report.terminal import render_schedule

IMAGES = Path(__file__).parent / "images"


def draw(name: str, title: str, renderable: object, width: int) -> None:
    """Write one terminal picture as SVG, without fonts from the network."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(renderable)
    svg = console.export_svg(title=title, unique_id=name)
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    (IMAGES / f"{name}.svg").write_text(svg.replace("Fira Code", "monospace"), encoding="utf-8")


if __name__ == "__main__":
    draw(
        "show",
        "pipeloom show ping_pong",
        render_schedule(build_schedule("ping_pong")),
        width=112,
    )

"""What ``bench`` measured as one page: the times with their spread, the model beside each part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from pipeloom.show.page import asset
from pipeloom.show.tuning_page import framed_page


def render_bench(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page of what ``bench --json`` prints under ``measured``."""
    gpus = sorted({_gpu(row) for row in rows})
    cards = [("Times", _times(rows)), *((_title(row), _kernel(row)) for row in rows)]
    quiet = f"{len(rows)} kernel(s) on {'; '.join(gpus)}; the model beside them"
    return framed_page("Measured kernels", quiet, cards, asset("bench.css"))


def _title(row: Mapping[str, Any]) -> str:
    sizes = " ".join(f"{dim}={size}" for dim, size in row["sizes"].items())
    return f"{row['kernel']} {sizes}"


def _gpu(row: Mapping[str, Any]) -> str:
    gpu = row["gpu"]
    return f"{gpu['name'] or gpu['arch']} ({gpu['arch']}), HIP {gpu['hip']}"


def _times(rows: Sequence[Mapping[str, Any]]) -> str:
    heads = ("kernel", "median us", "p20", "p80", "min", "runs", "TFLOPS", "model us", "torch us")
    lines = []
    for row in rows:
        times = row["microseconds"]
        numbers = [times[name] for name in ("median", "p20", "p80", "least")]
        numbers += [times["runs"], row["tflops"], row["model_microseconds"]]
        numbers.append(row["torch_matmul_microseconds"])
        cells = "".join(f"<td>{_number(one)}</td>" for one in numbers)
        lines.append(f'<tr><td class="words">{escape(_title(row))}</td>{cells}</tr>')
    first, *others = heads
    top = f'<th class="words">{first}</th>' + "".join(f"<th>{head}</th>" for head in others)
    return f'<div class="sideways"><table><tr>{top}</tr>{"".join(lines)}</table></div>'


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _kernel(row: Mapping[str, Any]) -> str:
    """How it was measured, and each part beside the model's."""
    how = "apart" if row["apart"] else "back to back"
    said = (
        f"{row['sets']} set(s) of arrays, {row['megabytes']:.4g} MB in all, {row['data']} data; "
        f"{row['warm_up']} launches to warm up, then {row['microseconds']['runs']} {how}"
    )
    inside = row["inside"]
    if inside is not None:
        clock = inside["clock_mhz"]
        cycles = f"{inside['cycles_per_trip']:g} cycles of a trip"
        said += f"; from inside: {inside['waves']} waves, {cycles}"
        said += "" if clock is None else f" at {clock:g} MHz"
    bars = "".join(map(_part, row["parts"]))
    right = row.get("right")
    words = {True: "equal to NumPy", False: "DIFFERS FROM NUMPY", None: "not compared with NumPy"}
    style = ' class="wrong"' if right is False else ""
    notes = "".join(f"<li>{escape(note)}</li>" for note in row["notes"])
    return (
        f"<p>{escape(said)}.</p><p{style}>A launch of small sizes: {words[right]}.</p>"
        f'<div class="bars">{bars}</div><ul class="quiet">{notes}</ul>'
    )


def _part(part: Mapping[str, Any]) -> str:
    most = max(part["measured"], part["model"])
    found = ""
    for name, style in (("measured", ""), ("model", " model")):
        width = 100 * part[name] / most if most else 0.0
        label = f"{part['part']}, {name}"
        more = f" ({part['off']:+.0%})" if name == "measured" else ""
        found += (
            f'<span>{escape(label)}</span><div><div class="bar{style}" style="width:{width:.1f}%">'
            f"</div></div><span>{part[name]:.4g}{more}</span>"
        )
    return found

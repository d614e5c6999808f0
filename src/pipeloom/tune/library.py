"""Kernels of tuned problems as a folder that programs can call.

    kernels/NAME.hsaco, .json      code objects, each with its contract
    dispatch.json                  shape -> kernel, with what the model predicts and its ranking
    pipeloom_gemm.h, .c            a launcher in C (and its table, pipeloom_gemm_table.h)
    pipeloom_gemm.py               the same for Python objects with DLPack

Both launchers choose in the same way, and neither needs pipeloom.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pipeloom
from pipeloom.drive.gemm import gemm_kernel
from pipeloom.drive.store import Store, digest, version
from pipeloom.errors import SpecError
from pipeloom.machine.dtypes import dtype_for
from pipeloom.plain import to_plain
from pipeloom.tune.binding import FORMAT
from pipeloom.tune.blocks import BlockJob
from pipeloom.tune.problem import Problem
from pipeloom.tune.search import Tuned
from pipeloom.write import assemble

TABLE = "pipeloom_gemm_table.h"
_VALUES = ("A", "B", "out", "m", "n", "k", "ld_A", "ld_B", "ld_out")
"""Arguments that the launchers fill in, in the order of the C launcher's."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A code object and all that a caller must know of it."""

    name: str
    record: Mapping[str, Any]
    code: bytes

    def check(self, problem: Problem) -> None:
        """Raise ``SpecError`` for a shape that the kernel does not compute."""
        for name, multiple in self.record["multiples"].items():
            size = getattr(problem, name)
            if size % multiple:
                raise SpecError(
                    f"{name.upper()} is {size}, and {self.name} loads {multiple} at a time",
                    hint=f"pad it with zeros to {-(-size // multiple) * multiple}",
                    field=name,
                )


def kernel_of(job: BlockJob, store: Store | None = None) -> Kernel:
    """The kernel with a block: its program from the store or derived, written and assembled."""
    kept = Store.usual() if store is None else store
    key = digest(["kernel", version("tune/blocks.py", "tune/library.py"), to_plain(job)])[:40]
    found = kept.read(key)
    if found is None:
        made = gemm_kernel(job.spec())
        code = base64.b64encode(assemble(made.kernel).data).decode()
        found = {"record": made.contract(), "code": code}
        kept.write(key, found)
    return Kernel(found["record"]["kernel"], found["record"], base64.b64decode(found["code"]))


def write_library(tuned: Sequence[Tuned], folder: Path, store: Store | None = None) -> list[Path]:
    """Write all files of the library; their paths."""
    if len({(one.chip, one.problem.dtype) for one in tuned}) != 1:
        raise SpecError(
            "a library is for one chip and one type", hint="write one for each", field="shapes"
        )
    kernels = {one.job: kernel_of(one.job, store) for one in tuned}
    for one in tuned:
        kernels[one.job].check(one.problem)
    table = dispatch(tuned, kernels)
    contents: dict[str, str | bytes] = {"dispatch.json": _json(table), TABLE: c_table(table)}
    for kernel in kernels.values():
        contents[_file(kernel)] = kernel.code
        contents[_file(kernel).replace(".hsaco", ".json")] = _json(kernel.record)
    here = files("pipeloom.tune")
    for name in ("pipeloom_gemm.h", "pipeloom_gemm.c"):
        contents[name] = (here / "launcher" / name).read_text(encoding="utf-8")
    contents["pipeloom_gemm.py"] = (here / "binding.py").read_text(encoding="utf-8")
    try:
        (folder / "kernels").mkdir(parents=True, exist_ok=True)
        for name, content in sorted(contents.items()):
            data = content.encode() if isinstance(content, str) else content
            (folder / name).write_bytes(data)
    except OSError as error:
        raise SpecError(
            f"cannot write {folder}: {error.strerror}", hint="name a folder", field="output"
        ) from error
    return [folder / name for name in sorted(contents)]


def dispatch(tuned: Sequence[Tuned], kernels: Mapping[BlockJob, Kernel]) -> dict[str, Any]:
    """Shape -> kernel, as plain data."""
    some = next(iter(kernels.values())).record
    return {
        "format": FORMAT,
        "pipeloom": pipeloom.__version__,
        "chip": tuned[0].chip,
        "target": some["target"],
        "dtype": some["dtype"],
        "out_dtype": some["out_dtype"],
        "layout": some["layout"],
        "kernels": {
            kernel.name: {**kernel.record, "file": _file(kernel)} for kernel in kernels.values()
        },
        "entries": [
            {
                "m": one.problem.m,
                "n": one.problem.n,
                "k": one.problem.k,
                "kernel": kernels[one.job].name,
                "tflops": round(one.prediction.tflops, 2),
                "microseconds": round(one.prediction.seconds * 1e6, 3),
                "limit": one.prediction.limit,
                "ranking": [
                    {"block": str(trial.block), "microseconds": round(trial.us, 3)}
                    for trial in sorted(one.trials, key=lambda t: (t.us or 0.0, t.block))
                    if trial.us is not None
                ],
            }
            for one in tuned
        ],
    }


def c_table(table: Mapping[str, Any]) -> str:
    """The dispatch table for the C launcher."""
    names = list(table["kernels"])
    rows = []
    for name in names:
        record = table["kernels"][name]
        arguments = {a["name"]: a for a in record["arguments"]}
        unknown = sorted(arguments.keys() - set(_VALUES))
        if unknown:
            raise SpecError(f"{name} takes {unknown[0]!r}, which no launcher gives", field="kernel")
        size = max(a["offset"] + a["size"] for a in record["arguments"])
        offsets = ", ".join(str(arguments.get(v, {"offset": -1})["offset"]) for v in _VALUES)
        multiples = ", ".join(str(record["multiples"].get(dim, 1)) for dim in "mnk")
        aligned = ", ".join(str(record["pitch_bytes"].get(a, 1)) for a in ("A", "B", "out"))
        tile = f"{record['tile']['m']}, {record['tile']['n']}"
        rows.append(
            f'    {{"{name}", "{record["file"]}", {record["threads"]}, {tile}, {multiples}, '
            f"{aligned}, {{{offsets}}}, {size}}},"
        )
    entries = [
        f"    {{{e['m']}, {e['n']}, {e['k']}, {names.index(e['kernel'])}}}, /* {e['tflops']} */"
        for e in table["entries"]
    ]
    return "\n".join(
        (
            f"/* Written by pipeloom {table['pipeloom']} for {table['chip']}; TFLOPS predicted. */",
            f'#define PLG_DTYPE "{table["dtype"]}"',
            f'#define PLG_OUT_DTYPE "{table["out_dtype"]}"',
            f"#define PLG_BYTES {dtype_for(table['dtype']).bits // 8}",
            f"#define PLG_OUT_BYTES {dtype_for(table['out_dtype']).bits // 8}",
            "static const plg_kernel_record plg_kernels[] = {",
            *rows,
            "};",
            "static const plg_entry plg_entries[] = {",
            *entries,
            "};",
            "",
        )
    )


def _file(kernel: Kernel) -> str:
    return f"kernels/{kernel.name}.hsaco"


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=1, sort_keys=True) + "\n"

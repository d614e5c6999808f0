"""Kernels of tuned problems as a folder that programs can call.

    kernels/NAME.hsaco, .json      code objects, each with its contract
    dispatch.json                  shape -> kernel, with what the model predicts and its ranking
    pipeloom_gemm.h, .c            a launcher in C (and its table, pipeloom_gemm_table.h)
    pipeloom_gemm/                 the same for Python objects with DLPack, and for PyTorch
    pyproject.toml                 pip installs the package with its kernels

Both launchers choose in the same way, and neither needs pipeloom.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pipeloom
from pipeloom import drive
from pipeloom.device.contracts import KernelContract
from pipeloom.drive.gemm import GemmSpec, gemm_kernel, least_align
from pipeloom.drive.store import Store, digest, version
from pipeloom.errors import SpecError
from pipeloom.files import write_files
from pipeloom.machine.dtypes import dtype_for
from pipeloom.plain import to_plain
from pipeloom.tuning.binding import DISPATCH, FORMAT
from pipeloom.tuning.library_package import USUAL_NAME, python_package
from pipeloom.tuning.search import Tuned
from pipeloom.write import assemble

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")
TABLE = "pipeloom_gemm_table.h"
_MATRICES = ("A", "B", "C", "out", "P", "X", "blocks_A", "blocks_B")
_ARRAYS = (*_MATRICES, "scale_A", "scale_B", "bias")
_VALUES = (
    *_ARRAYS,
    *(f"bs_{name}" for name in _ARRAYS),
    *("m", "n", "k", "s", "r", "c"),
    *(f"ld_{name}" for name in _MATRICES),
    *("batches", "alpha", "beta"),
)
"""Arguments that the launchers fill in, in the order of the C launcher's."""


@dataclass(frozen=True, slots=True, repr=False)
class LibraryKernel:
    """Code objects by symbol, and all that a caller must know of them; the first is ``name``."""

    name: str
    record: Mapping[str, Any]
    codes: Mapping[str, bytes]

    def __repr__(self) -> str:
        size = sum(map(len, self.codes.values()))
        return f"<LibraryKernel {self.name}: {len(self.codes)} code objects, {size} bytes>"


def kernel_of(spec: GemmSpec, store: Store | None = None) -> LibraryKernel:
    """The kernel of a spec, with what runs before and after, written now from a proved program.

    What is written is judged as machine code too; of that the store knows which code was right, and
    nothing else: no byte of a kernel comes from a file that someone else may have written.
    """
    kept = Store.usual() if store is None else store
    made = gemm_kernel(spec)
    codes = {_identifier(one.name): assemble(one).data for one in made.kernels}
    for one in made.kernels:
        key = digest(["right", version("tuning/library.py"), one.text, codes[one.name].hex()])[:40]
        if kept.read(key) != {"right": one.name}:
            drive.witnessing.require_right(one)
            kept.write(key, {"right": one.name})
    return LibraryKernel(made.kernel.name, made.contract(), codes)


def write_library(
    tuned: Sequence[Tuned],
    folder: Path,
    store: Store | None = None,
    *,
    name: str = USUAL_NAME,
    torch: bool = False,
) -> list[Path]:
    """Write all files of the library; their paths. The Python package has the name."""
    kinds = {
        (one.chip, one.machine, p.dtype, p.layout, p.finish) for one in tuned for p in [one.problem]
    }
    if len(kinds) != 1:
        raise SpecError(
            "a library is for one chip, one type, one layout, and one thing to follow the sum",
            hint="write one for each",
            field="shapes",
        )
    # Each with what copies rows to where they are aligned, which is the same for all of them.
    specs = {one: replace(one.spec, align=least_align(one.spec)) for one in tuned}
    kernels = {spec: kernel_of(spec, store) for spec in specs.values()}
    table = dispatch({one: kernels[spec] for one, spec in specs.items()})
    contents: dict[str, str | bytes] = {DISPATCH: _json(table), TABLE: c_table(table)}
    for kernel in kernels.values():
        contents |= {_file(name): code for name, code in kernel.codes.items()}
        contents[f"kernels/{kernel.name}.json"] = _json(_placed(kernel))
    here = files("pipeloom")
    for file in ("pipeloom_gemm.h", "pipeloom_gemm.c"):
        contents[file] = (here / "tuning" / "launcher" / file).read_text(encoding="utf-8")
    contents |= python_package(name, ops=torch)
    written = {folder / file: contents[file] for file in sorted(contents)}
    write_files(written)
    return list(written)


def dispatch(kernels: Mapping[Tuned, LibraryKernel]) -> dict[str, Any]:
    """Shape -> kernel, as plain data."""
    tuned, kernel = next(iter(kernels.items()))
    some = _placed(kernel)
    scale = dtype_for(tuned.problem.dtype).scale
    return {
        "format": FORMAT,
        "pipeloom": pipeloom.__version__,
        "chip": tuned.chip,
        "target": some["target"],
        "dtype": some["dtype"],
        "block": 0 if scale is None else scale.size,
        "out_dtype": some.get("then", some)["out_dtype"],
        "layout": some["layout"],
        "finish": to_plain(tuned.problem.finish),
        "packing": some["before"],
        "kernels": {
            one.name: {key: value for key, value in _placed(one).items() if key != "before"}
            for one in kernels.values()
        },
        "entries": [
            {
                "m": one.problem.m,
                "n": one.problem.n,
                "k": one.problem.k,
                "kernel": kernel.name,
                "tflops": round(one.prediction.tflops, 2),
                "microseconds": round(one.prediction.seconds * 1e6, 3),
                "limit": one.prediction.limit,
                "ranking": [
                    {"block": str(trial.block), "microseconds": round(trial.us, 3)}
                    for trial in sorted(one.trials, key=lambda t: (t.us or 0.0, t.block))
                    if trial.us is not None
                ],
            }
            for one, kernel in kernels.items()
        ],
    }


def c_table(table: Mapping[str, Any]) -> str:
    """The dispatch table for the C launcher."""
    records = list(table["kernels"].values())
    records += [record["then"] for record in records if "then" in record]
    records += {one["kernel"]: one for one in table["packing"].values()}.values()
    names = [record["kernel"] for record in records]
    rows = []
    for record in records:
        name, then = record["kernel"], record.get("then")
        arguments = {a["name"]: a for a in record["arguments"]}
        unknown = sorted(arguments.keys() - set(_VALUES))
        if unknown:
            raise SpecError(f"{name} takes {unknown[0]!r}, which no launcher gives", field="kernel")
        size = KernelContract.of(record).argument_bytes
        offsets = ", ".join(str(int(arguments.get(v, {"offset": -1})["offset"])) for v in _VALUES)
        multiples = ", ".join(str(int(record["multiples"].get(dim, 1))) for dim in "mnk")
        arrays = ("A", "B", "C", "out")
        aligned = ", ".join(str(int(record["pitch_bytes"].get(name, 1))) for name in arrays)
        down, across = ("m", "n") if "m" in record["tile"] else ("r", "c")
        tile = f"{int(record['tile'][down])}, {int(record['tile'][across])}"
        after = -1 if then is None else names.index(then["kernel"])
        reach = f"{int(record['reach']['least'])}, {max(int(record['reach']['step']), 1)}"
        rows.append(
            f"    {{{_c_text(name)}, {_c_text(record['file'])}, {int(record['threads'])}, "
            f"{int(record['slices'])}, "
            f"{int(record['batched'])}, {after}, {int(record.get('along', False))}, {tile}, "
            f"{multiples}, {aligned}, {reach}, {{{offsets}}}, {size}}},"
        )
    entries = [
        f"    {{{int(e['m'])}, {int(e['n'])}, {int(e['k'])}, {names.index(e['kernel'])}}}, "
        f"/* {float(e['tflops'])} */"
        for e in table["entries"]
    ]
    return "\n".join(
        (
            f"/* Written by pipeloom {pipeloom.__version__} for {_identifier(table['target'])}; "
            "TFLOPS predicted. */",
            f"#define PLG_DTYPE {_c_text(table['dtype'])}",
            f"#define PLG_OUT_DTYPE {_c_text(table['out_dtype'])}",
            f"#define PLG_A_TRANSPOSED {int(table['layout'][0] == 'T')}",
            f"#define PLG_B_TRANSPOSED {int(table['layout'][1] == 'T')}",
            *(
                f"#define PLG_{name.upper()} {int(table['finish'][name])}"
                for name in ("alpha", "beta", "scales", "bias")
            ),
            *(
                f"#define PLG_PACK_{_identifier(name)} {names.index(record['kernel'])}"
                for name, record in table["packing"].items()
            ),
            f"#define PLG_LINE {int(table['packing']['A']['line'])}",
            f"#define PLG_BLOCK {int(table['block'])}",
            f"#define PLG_BITS {dtype_for(table['dtype']).bits}",
            f"#define PLG_OUT_BITS {dtype_for(table['out_dtype']).bits}",
            "static const plg_kernel_record plg_kernels[] = {",
            *rows,
            "};",
            "static const plg_entry plg_entries[] = {",
            *entries,
            "};",
            "",
        )
    )


def with_files(record: Mapping[str, Any], places: Mapping[str, Path]) -> dict[str, Any]:
    """A record that says in which file each of its code objects lies, by its symbol."""
    found = {**record, "file": places[record["kernel"]].as_posix()}
    if "then" in record:
        found["then"] = with_files(record["then"], places)
    if "before" in record:
        before = record["before"].items()
        found["before"] = {name: with_files(one, places) for name, one in before}
    return found


def _placed(kernel: LibraryKernel) -> dict[str, Any]:
    return with_files(kernel.record, {name: Path(_file(name)) for name in kernel.codes})


def _file(name: str) -> str:
    return f"kernels/{name}.hsaco"


def _identifier(name: str) -> str:
    """A name that is safe as a file's, a symbol's and a macro's."""
    if not _NAME.fullmatch(name):
        raise SpecError(
            f"{name[:60]!r} is no name of a kernel",
            hint="letters, digits and _ only",
            field="kernel",
        )
    return name


def _c_text(text: str) -> str:
    """A string of C, whatever it holds."""
    plain = {*string.ascii_letters, *string.digits, *"_./-"}
    codes = (c if c in plain else "".join(f"\\{b:03o}" for b in c.encode()) for c in text)
    return '"' + "".join(codes) + '"'


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=1, sort_keys=True) + "\n"

"""Matrix products from a library of kernels, for anything with DLPack, through HIP.

    import pipeloom_gemm
    library = pipeloom_gemm.Library("lib")
    library.gemm(a, b, out)                  # PyTorch tensors on the GPU, or others
    library.gemm(a, b, out, alpha=0.5, bias=v)       # where its kernels have alpha and a bias
    library.gemm(a, b, out, blocks_a=x, blocks_b=y)  # mxfp8, mxfp4: the scales of 32 along K

``pipeloom library`` writes this package as it is: it needs Python and ROCm's libamdhip64.so, and
nothing else. The library's layout says how matrices are stored: NT means ``a`` as M x K and ``b``
as N x K, TN the other way round, ``a`` as K x M and ``b`` as K x N. Rows may have gaps. With three
dimensions the first is the batch, in a library that was written for batches. The type is DLPack's;
of arrays that have no name for it (NumPy's uint16 for bf16, uint8 for fp8, and for pairs of fp4)
``dtype`` says it. A product whose K is cut takes two kernels and memory for its parts; one of rows
that are not aligned copies them first, to memory too, which a library allocates once for every
stream. What a kernel does not allow is refused before anything is launched. UNTESTED ON HARDWARE:
kernels ran in an emulator, and this package against a stand-in for HIP.
"""

from __future__ import annotations

import copy
import ctypes
import json
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from .arrays import CPU, ROCM, LibraryError, MatrixView, Vector
from .kernel_records import FORMAT, MOST_ALONG, check, chosen, grid, packed, packed_place, within

__all__ = ["Library", "LibraryError"]

APART = 256
"""Bytes of which arrays in the memory of a stream begin at multiples."""
_BUFFER, _SIZE, _END = 1, 2, 3
"""HIP_LAUNCH_PARAM_*: the arguments as one buffer."""


class Library:
    """The kernels of a folder; modules are loaded when they are first needed."""

    def __init__(self, folder: str | Path, hip: Any = None) -> None:
        self.folder = Path(folder)
        try:
            table = json.loads((self.folder / "dispatch.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise LibraryError(f"{folder} is no library: {error}") from error
        if table.get("format") != FORMAT:
            raise LibraryError(f"{folder} has format {table.get('format')!r}, not {FORMAT!r}")
        self.table: dict[str, Any] = table
        self._loaded: dict[str, Any] = {}
        self._parts: dict[int, tuple[int, int]] = {}
        self._given = hip
        self._hip_found: Any = None

    def gemm(
        self,
        a: Any,
        b: Any,
        out: Any,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        c: Any = None,
        bias: Any = None,
        scale_a: Any = None,
        scale_b: Any = None,
        blocks_a: Any = None,
        blocks_b: Any = None,
        dtype: str | None = None,
        stream: int = 0,
    ) -> dict[str, Any]:
        """The product, begun on ``stream``; the entry of the table that was used.

        ``c`` is what beta multiplies, ``out`` unless given; ``bias`` has a number for every column,
        ``scale_a`` one for every row, ``scale_b`` for every column. ``blocks_a`` is M x K / 32
        bytes of E8M0 (the exponent of a power of two, plus 127), ``blocks_b`` N x K / 32, whatever
        the layout; the elements of mxfp4 lie two to a byte, the first in its low half.
        """
        out_dtype, dtype = self.table["out_dtype"], dtype and dtype.removeprefix("mx")
        left, right = MatrixView(a, "a", dtype), MatrixView(b, "b", dtype)
        result = MatrixView(out, "out", None if dtype is None else out_dtype)
        before = result if c is None else MatrixView(c, "c", None if dtype is None else out_dtype)
        m, k = (left.rows, left.columns)[:: 1 if self.table["layout"][0] == "N" else -1]
        n, inner = (right.rows, right.columns)[:: 1 if self.table["layout"][1] == "T" else -1]
        if (inner, result.rows, result.columns) != (k, m, n):
            raise LibraryError(
                f"a is {left.rows} x {left.columns} and b {right.rows} x {right.columns}, so out "
                f"cannot be {result.rows} x {result.columns} (layout {self.table['layout']})"
            )
        if (before.rows, before.columns) != (m, n):
            raise LibraryError(f"c is {before.rows} x {before.columns}, and out {m} x {n}")
        vectors = self._vectors(
            alpha, beta, c, {"bias": (bias, n), "scale_A": (scale_a, m), "scale_B": (scale_b, n)}
        )
        matrices = {"A": left, "B": right, "C": before, "out": result}
        matrices |= self._blocks({"blocks_A": (blocks_a, m), "blocks_B": (blocks_b, n)}, k)
        for name, matrix, wanted in (
            ("a", left, self.table["dtype"]),
            ("b", right, self.table["dtype"]),
            ("c", before, out_dtype),
            ("out", result, out_dtype),
            *((name, vector, "f32") for name, vector in vectors.items()),
            *((name, matrices[name], "e8m0") for name in matrices if name.startswith("blocks")),
        ):
            if matrix.dtype != wanted:
                raise LibraryError(f"{name} is {matrix.dtype}, and this library is of {wanted}")
            if matrix.device != ROCM and not (matrix.device == CPU and self._given is not None):
                raise LibraryError(f"{name} is not in the memory of a ROCm GPU")
        entry = chosen(self.table["entries"], m, n, k)
        record = self.table["kernels"][entry["kernel"]]
        batches = {matrix.batches for matrix in matrices.values()}
        if len(batches) > 1 or (batches != {1} and not record["batched"]):
            raise LibraryError(
                f"{record['kernel']} computes one product at a time, or batches differ: "
                + ", ".join(f"{name} {matrix.batches}" for name, matrix in matrices.items())
            )
        count = batches.pop()
        if count * record["slices"] > MOST_ALONG:
            raise LibraryError(f"{count} batches of {record['slices']} workgroups are too many")
        if m == 0 or n == 0 or count == 0:
            return entry
        slices, then = record["slices"], record.get("then")
        check(then or record, m, n, None, {name: matrices[name] for name in ("C", "out")})
        if then is not None:
            sums = copy.copy(result)
            sums.pitch, sums.bits = n, 32
            within(sums, "the workspace", record["tile"]["m"])
        multiple = record["multiples"].get("k", 1)
        odd = {name for name in "AB" if not matrices[name].aligned(record["pitch_bytes"][name])}
        taken = -(-k // multiple) * multiple
        given = {name: matrices[name] for name in "AB" if taken != k or name in odd}
        places = {
            name: packed_place(self.table["packing"][name], matrix, taken)
            for name, matrix in given.items()
        }
        matrices |= {name: place for name, (place, _) in places.items()}
        k = taken
        check(record, m, n, k, {n: matrices[n] for n in matrices if n not in ("C", "out")})
        sizes = [0 if then is None else 4 * slices * m * n * count]
        sizes += [place.size for place, _ in places.values()]
        parts, *copies = self._workspace(stream, sizes)
        values: dict[str, float] = {"m": m, "n": n, "k": k, "batches": count}
        for (name, (place, skipped)), at in zip(places.items(), copies, strict=True):
            self._pack(self.table["packing"][name], given[name], place, at, stream)
            place.address = at + skipped * place.bits // 8
        values |= {"alpha": float(alpha), "beta": float(beta)}
        for name, matrix in {**matrices, **vectors}.items():
            values |= {name: matrix.address, f"ld_{name}": matrix.pitch}
            values[f"bs_{name}"] = matrix.stride
        if then is None:
            self._launch(record, grid(record, m, n, count), values, stream)
            return entry
        first = {**values, "out": parts, "ld_out": n, "bs_out": m * n}
        self._launch(record, grid(record, m, n, slices * count), first, stream)
        values |= {"P": parts, "ld_P": n, "bs_P": m * n * slices, "s": slices}
        self._launch(then, grid(then, m, n, count), values, stream)
        return entry

    def _vectors(
        self, alpha: float, beta: float, c: Any, given: Mapping[str, tuple[Any, int]]
    ) -> dict[str, Vector]:
        """Those that kernels take; raises for what is missing, or asked for in vain."""
        finish = self.table["finish"]
        takes = {"bias": "bias", "scale_A": "scales", "scale_B": "scales"}
        for name, asked in (("alpha", alpha != 1), ("beta", beta != 0 or c is not None)):
            if asked and not finish[name]:
                raise LibraryError(f"the kernels of this library have no {name}")
        for name, (array, _) in given.items():
            if (array is not None) != finish[takes[name]]:
                lacks = "lacks" if array is None else "has"
                raise LibraryError(
                    f"the call {lacks} {name}, and the kernels of this library are "
                    + ("with it" if finish[takes[name]] else "without")
                )
        return {
            name: Vector(array, name, length)
            for name, (array, length) in given.items()
            if array is not None
        }

    def _blocks(self, given: Mapping[str, tuple[Any, int]], k: int) -> dict[str, MatrixView]:
        """The scales of blocks along K, where kernels take them."""
        covers = self.table["block"]
        found = {}
        for name, (array, rows) in given.items():
            if (array is not None) != bool(covers):
                raise LibraryError(
                    f"the kernels of this library are {'with' if covers else 'without'} {name}"
                )
            if array is None:
                continue
            if k % covers:
                raise LibraryError(f"k is {k}, and must be whole blocks of {covers}")
            found[name] = MatrixView(array, name, "e8m0")
            if (found[name].rows, found[name].columns) != (rows, k // covers):
                raise LibraryError(f"{name} must be {rows} x {k // covers}")
        return found

    def _pack(
        self, record: Mapping[str, Any], matrix: MatrixView, place: MatrixView, at: int, stream: int
    ) -> None:
        """Copy a matrix to aligned rows, with zeros before its K."""
        shared = 8 // min(matrix.bits, 8)
        rows, columns = matrix.rows, matrix.columns // shared
        values: dict[str, float] = {"r": rows, "c": columns, "batches": matrix.batches}
        for name, one, address in (("X", matrix, matrix.address), ("P", place, at)):
            values |= {name: address, f"ld_{name}": one.pitch // shared}
            values[f"bs_{name}"] = one.stride // shared
        tile, size = ("r", rows) if record["along"] else ("c", columns)
        groups = -(-size // record["tile"][tile])
        if groups:
            self._launch(record, (groups, 1, matrix.batches), values, stream)

    def close(self) -> None:
        """Free the memory for parts; kernels that use it must be done."""
        for address, _ in self._parts.values():
            self._call("hipFree", ctypes.c_void_p(address))
        self._parts.clear()

    def _workspace(self, stream: int, sizes: list[int]) -> list[int]:
        """Memory for parts and copies: one for each stream, whose kernels follow in order."""
        ends = list(accumulate((-(-size // APART) * APART for size in sizes), initial=0))
        size = ends.pop()
        address, had = self._parts.get(stream, (0, 0))
        if had < size:
            if address:
                self._call("hipFree", ctypes.c_void_p(address))
                del self._parts[stream]
            pointer = ctypes.c_void_p()
            self._call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(size))
            address = int(pointer.value or 0)
            self._parts[stream] = address, size
        return [address + end for end in ends]

    def _launch(
        self,
        record: Mapping[str, Any],
        grid: tuple[int, int, int],
        values: Mapping[str, float],
        on: int,
    ) -> None:
        data = packed(record, values)
        buffer, size = ctypes.create_string_buffer(data, len(data)), ctypes.c_size_t(len(data))
        extra = (ctypes.c_void_p * 5)(
            _BUFFER, ctypes.addressof(buffer), _SIZE, ctypes.addressof(size), _END
        )
        function = self._function(record)
        block = (record["threads"], 1, 1)
        stream = ctypes.c_void_p(on or None)
        self._call("hipModuleLaunchKernel", function, *grid, *block, 0, stream, None, extra)

    def _function(self, record: Mapping[str, Any]) -> Any:
        name = record["kernel"]
        if name not in self._loaded:
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            path = str(self.folder / record["file"]).encode()
            self._call("hipModuleLoad", ctypes.byref(module), path)
            self._call("hipModuleGetFunction", ctypes.byref(function), module, name.encode())
            self._loaded[name] = function
        return self._loaded[name]

    def _call(self, name: str, *arguments: object) -> None:
        hip = self._hip()
        code = getattr(hip, name)(*arguments)
        if code:
            hip.hipGetErrorString.restype = ctypes.c_char_p
            raise LibraryError(f"{name}: {hip.hipGetErrorString(code).decode()} ({code})")

    def _hip(self) -> Any:
        if self._hip_found is None:
            try:
                self._hip_found = self._given or ctypes.CDLL("libamdhip64.so")
            except OSError as error:
                raise LibraryError(f"no HIP runtime here: {error}") from error
        return self._hip_found

"""Matrix products from a library of kernels, for anything with DLPack, through HIP.

    import pipeloom_gemm
    library = pipeloom_gemm.Library()        # the one that this package lies in, or comes with
    library.gemm(a, b, out)                  # PyTorch tensors on the GPU, or others
    library.gemm(a, b, out, alpha=0.5, bias=v)       # where its kernels have alpha and a bias
    library.gemm(a, b, out, blocks_a=x, blocks_b=y)  # mxfp8, mxfp4: the scales of 32 along K
    out = library.torch_op("gemm", "mine")(a, b)     # an op of PyTorch: torch.ops.mine.gemm

``pipeloom library`` writes this module, ``device`` and ``errors`` as they are: they need Python and
ROCm, and nothing else. The library's layout says how matrices are stored: NT means ``a`` as M x K
and ``b`` as N x K, TN the other way round, ``a`` as K x M and ``b`` as K x N. Rows may have gaps.
With three dimensions the first is the batch, in a library that was written for batches. Types that
an array has no name for are codes: ``uint16`` for bf16, ``uint8`` for fp8, and for pairs of fp4. A
product whose K is cut takes two kernels and memory for its parts; one of rows that are not aligned
copies them first, to memory too, which a library allocates once for every stream, or a caller
passes. What a kernel does not allow is refused before anything is launched. UNTESTED ON HARDWARE:
kernels ran in an emulator, and this package against a stand-in for HIP.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..device.hip import Hip
from ..device.hip_errors import DeviceError
from ..device.images import KernelImage
from ..device.prepared_kernel import PreparedKernel
from ..device.tensors import view_of
from ..device.torch_op import TorchOp

LibraryError = DeviceError
FORMAT = "pipeloom-library-1"
DISPATCH = "dispatch.json"
INSTALLED = "library"
"""The folder of an installed package that has what else lies beside the package."""
OPERANDS = {
    "a": "A",
    "b": "B",
    "bias": "bias",
    "scale_a": "scale_A",
    "scale_b": "scale_B",
    "blocks_a": "blocks_A",
    "blocks_b": "blocks_B",
}
"""What a call names an array, and what kernels do."""


class Library:
    """The kernels of a folder; modules are loaded, on each device, when they are first needed.

    Args:
        folder: What ``pipeloom library`` wrote; where this package lies, or what was installed with
            it, unless given.
        hip: The HIP to use; that of the process unless given.
    """

    def __init__(self, folder: str | Path | None = None, hip: Hip | None = None) -> None:
        folder = self.folder = _home() if folder is None else Path(folder)
        try:
            table = json.loads((self.folder / DISPATCH).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise LibraryError(f"{folder} is no library: {error}", field="folder") from error
        if table.get("format") != FORMAT:
            raise LibraryError(
                f"{folder} has format {table.get('format')!r}, not {FORMAT!r}", field="folder"
            )
        self.table: dict[str, Any] = table
        self._hip = hip
        self._prepared: dict[tuple[int, str], PreparedKernel] = {}

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
        workspace: Any = None,
        stream: Any = None,
    ) -> dict[str, Any]:
        """The product, begun on ``stream``; the entry of the table that was used.

        Args:
            a: The left operand, on the device.
            b: The right one.
            out: What is written.
            alpha: What the product is multiplied by.
            beta: What ``c`` is multiplied by.
            c: What is added; ``out`` unless given.
            bias: A number for every column.
            scale_a: A factor for every row.
            scale_b: A factor for every column.
            blocks_a: M x K / 32 bytes of E8M0 (the exponent of a power of two, plus 127), whatever
                the layout.
            blocks_b: N x K / 32 of them.
            workspace: Memory on the device for parts and copies, of ``workspace_bytes``; the
                library has its own otherwise.
            stream: A handle or an object that has one; PyTorch's current one for its tensors, else
                the default stream.
        """
        given = dict(zip(OPERANDS, (a, b, bias, scale_a, scale_b, blocks_a, blocks_b), strict=True))
        arrays = {OPERANDS[name]: array for name, array in given.items() if array is not None}
        entry, kernel = self._kernel(a, out)
        for name, asked in (("alpha", alpha != 1), ("beta", beta != 0 or c is not None)):
            if asked and not self.table["finish"][name]:
                raise LibraryError(f"the kernels of this library have no {name}", field=name)
        numbers = {"alpha": float(alpha), "beta": float(beta)}
        arrays |= {name: value for name, value in numbers.items() if name in kernel.scalars}
        if "C" in kernel.rules:
            arrays["C"] = out if c is None else c
        kernel(out=out, stream=stream, workspace=workspace, **arrays)
        return entry

    def workspace_bytes(self, a: Any, b: Any, out: Any, **given: Any) -> int:
        """What a product of such arrays needs for parts and copies.

        Args:
            a: The left operand.
            b: The right one.
            out: What is written.
            **given: Further arrays, as for ``gemm``.
        """
        _, kernel = self._kernel(a, out)
        arrays = {OPERANDS[name]: array for name, array in given.items() if name in OPERANDS}
        more = {"C": given.get("c", out)} if "C" in kernel.rules else {}
        numbers = {name: 1.0 for name in ("alpha", "beta") if name in kernel.scalars}
        return kernel.workspace_bytes(A=a, B=b, out=out, **arrays, **more, **numbers)

    def torch_op(self, name: str, namespace: str) -> TorchOp:
        """The product as an op of PyTorch, ``torch.ops.NAMESPACE.NAME``, which makes its output.

        It takes what its kernels take, by their names and in their order (A, B, C, the scales, the
        bias, then beta and alpha), and chooses a kernel by the sizes, as ``gemm`` does.

        Args:
            name: The op's name, taken once in a process.
            namespace: What it stands behind.
        """
        records = self.table["kernels"].values()
        record = {**next(iter(records)), "batched": all(one["batched"] for one in records)}

        def kernel_for(device: int, named: Mapping[str, Any]) -> PreparedKernel:
            return self._on(device, self._entry(named["A"].shape, named["out"].shape))

        return TorchOp(name, record, kernel_for, namespace)

    def close(self) -> None:
        """Free the memory for parts and copies; kernels that use it must be done."""
        for kernel in self._prepared.values():
            kernel.close()

    def _kernel(self, a: Any, out: Any) -> tuple[dict[str, Any], PreparedKernel]:
        """The entry of a shape, and its kernel on the device of its arrays."""
        left = view_of(a, "a")
        entry = self._entry(left.shape, view_of(out, "out").shape)
        if left.on_host:
            raise LibraryError(
                "a is not in the memory of a ROCm GPU", hint="move it there", field="a"
            )
        return entry, self._on(left.device, entry)

    def _entry(self, left: Sequence[int], result: Sequence[int]) -> dict[str, Any]:
        """Of the shapes of A and of the output."""
        if min(len(left), len(result)) < 2:
            raise LibraryError("a and out are matrices, or batches of them", field="a")
        across = 1 if self.table["layout"][0] == "N" else 0
        pairs = 2 if self.table["dtype"] == "fp4" else 1
        k = left[-2:][across] * (pairs if across else 1)
        return chosen(self.table["entries"], result[-2], result[-1], k)

    def _on(self, device: int, entry: Mapping[str, Any]) -> PreparedKernel:
        key = device, str(entry["kernel"])
        found = self._prepared.get(key)
        if found is None:
            found = self._prepared[key] = self._load(*key)
        return found

    def _load(self, device: int, name: str) -> PreparedKernel:
        record = {**self.table["kernels"][name], "before": self.table["packing"]}
        parts = [record, record.get("then"), *record["before"].values()]
        codes = {}
        for part in filter(None, parts):
            try:
                codes[part["kernel"]] = (self.folder / part["file"]).read_bytes()
            except OSError as error:
                raise LibraryError(f"cannot read {part['file']}: {error.strerror}") from error
        return PreparedKernel(self._hip or Hip.open(), device, KernelImage(record, codes))


def _home() -> Path:
    """Where this package's library lies: in it, where it is installed, else around it."""
    package = Path(__file__).parent.parent
    inside = package / INSTALLED
    return inside if (inside / DISPATCH).is_file() else package.parent


def chosen(entries: list[dict[str, Any]], m: int, n: int, k: int) -> dict[str, Any]:
    """The entry of a shape: its own, else the nearest; the C launcher chooses in the same way.

    Nearest is the least product of ratios of the sizes, and of equals the first.
    """
    best, least = entries[0], float("inf")
    for entry in entries:
        far = 1.0
        for size, other in ((m, entry["m"]), (n, entry["n"]), (k, entry["k"])):
            size = max(size, 1)
            far *= size / other if size > other else other / size
        if far < least:
            best, least = entry, far
    return best

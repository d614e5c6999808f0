"""Tuning from Python, as the commands do it: ``tune``, ``gemm`` and ``library``.

    import pipeloom as pl
    pl.tune("4096x4096x8192")[0].prediction.tflops
    pl.gemm(4096, 4096, 8192, dtype="fp8").write("k.hsaco")
    pl.library("llama-3-8b", "lib", tokens=[4096])

What was found is kept, so a second call costs nothing, whoever asked first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeloom import drive
from pipeloom.checks import check_int, check_known, plain_int
from pipeloom.declare.gemm_problem import Finish
from pipeloom.device.images import KernelImage, record_path
from pipeloom.drive.gemm import SIZES, gemm_kernel, gemm_made_from
from pipeloom.drive.run_limits import MAX_INSTRUCTIONS, RunLimits
from pipeloom.drive.store import Store
from pipeloom.errors import ConfigError, SpecError
from pipeloom.files import write_files
from pipeloom.machine.dtypes import dtype_for
from pipeloom.machine.gpus import gpu_for
from pipeloom.machine.target import Target
from pipeloom.tuning import search
from pipeloom.tuning.engines import Engine, Inline, OnRay, Processes
from pipeloom.tuning.library import LibraryKernel, kernel_of, with_files, write_library
from pipeloom.tuning.library_package import USUAL_NAME, check_package_name
from pipeloom.tuning.search import CLOSE, Tuned, TuneProgress
from pipeloom.tuning.shapes import MODELS, TOKENS, problems

if TYPE_CHECKING:
    from pipeloom.drive.trial import Trial

Shape = str | tuple[int, int, int]
"""``4096x4096x8192``, (4096, 4096, 8192), a model, or a file of shapes."""
PLACES = ("local", "ray")
ENDINGS = (".hsaco", ".s")


@dataclass(frozen=True, slots=True, repr=False)
class TunedKernel:
    """The kernel of one product: what was chosen, its code objects, and how to launch them."""

    tuned: Tuned
    """The plan, what the model predicts of it, and how the search went."""
    kernel: LibraryKernel
    """The code objects by symbol, and the record that says how they are launched."""

    def __repr__(self) -> str:
        return f"<TunedKernel {self.kernel.name}: {self.tuned}>"

    @property
    def sizes(self) -> dict[str, int]:
        """What it was tuned for: m, n, k and batches."""
        return {dim: getattr(self.tuned.problem, dim) for dim in SIZES}

    @property
    def launches(self) -> list[str]:
        """The kernels in the order of their launches: copies of operands first, sums last."""
        record = self.kernel.record
        before = dict.fromkeys(one["kernel"] for one in record.get("before", {}).values())
        after = [record["then"]["kernel"]] if "then" in record else []
        return [*before, self.kernel.name, *after]

    @property
    def image(self) -> KernelImage:
        """What ``launch`` takes."""
        return KernelImage(self.kernel.record, self.kernel.codes)

    def run(
        self,
        *,
        sizes: Mapping[str, int] | None = None,
        seed: int = 0,
        max_instructions: int = MAX_INSTRUCTIONS,
    ) -> Trial:
        """Run the product in the emulator, with what goes before and after, and compare with NumPy.

        Args:
            sizes: Sizes other than those it was tuned for: m, n, k, batches.
            seed: Decides the data, the timing and the order of waves.
            max_instructions: Refuse to emulate more, about.
        """
        ready = drive.gemm_trial.ReadyGemm.of(gemm_kernel(self.tuned.spec))
        limits = RunLimits(max_instructions=max_instructions)
        whole = {**self.sizes, **(sizes or {})}
        (trial,) = drive.running_gemms.gemm_trials(ready, whole, [seed], limits)
        return trial

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the prediction, and the kernel's name."""
        return {**self.tuned.to_dict(), "kernel": self.kernel.name}

    def assembly(self) -> dict[str, str]:
        """The text of every kernel by symbol, the product's first."""
        return {one.name: one.text for one in gemm_kernel(self.tuned.spec).kernels}

    def files(self, path: str | PathLike[str]) -> dict[Path, str | bytes]:
        """What belongs under a name, by path, unwritten: the first is ``path`` itself.

        ``k.hsaco``: code objects, and ``k.json``, which says how to launch them. ``k.s``: assembly.

        Args:
            path: Where the product's kernel goes; what runs before or after it goes beside it.
        """
        first = Path(path)
        check_kernel_file(first)
        parts: dict[str, Any] = {**self.kernel.codes}
        if first.suffix == ".s":
            parts = {**self.assembly()}
        places = {name: first.with_name(self._file(first, name)) for name in parts}
        found: dict[Path, str | bytes] = {places[name]: part for name, part in parts.items()}
        if first.suffix == ".hsaco":
            beside = {name: Path(place.name) for name, place in places.items()}
            record = {**with_files(self.kernel.record, beside), "predicted": self.tuned.to_dict()}
            record["made_from"] = gemm_made_from(self.tuned.spec, self.sizes)
            text = json.dumps(record, indent=1, sort_keys=True) + "\n"
            found[record_path(first)] = text
        return found

    def write(self, path: str | PathLike[str]) -> list[Path]:
        """Write what ``files`` says; the paths.

        Args:
            path: ``k.hsaco`` for code objects with ``k.json`` beside them, ``k.s`` for assembly.
        """
        found = self.files(path)
        write_files(found)
        return list(found)

    def _file(self, first: Path, name: str) -> str:
        rest = name.removeprefix(self.kernel.name).removeprefix("gemm")
        return f"{first.stem}{rest}{first.suffix}"


@dataclass(frozen=True, slots=True, repr=False)
class TunedLibrary:
    """A folder of kernels that programs can call."""

    folder: Path
    """Where it was written."""
    tuned: tuple[Tuned, ...]
    """The best plan of every shape."""
    files: tuple[Path, ...]
    """What was written."""

    def __repr__(self) -> str:
        kernels = "1 kernel" if self.kernels == 1 else f"{self.kernels} kernels"
        return f"<TunedLibrary {self.folder}: {kernels} for {len(self.tuned)} shapes>"

    @property
    def kernels(self) -> int:
        """How many kernels serve the shapes."""
        return len({one.job for one in self.tuned})


def tune(
    shapes: Shape | Sequence[Shape],
    *,
    target: str | Target = "MI355X",
    dtype: str = "bf16",
    layout: str = "NT",
    batches: int = 1,
    alpha: bool = False,
    beta: bool = False,
    scales: bool = False,
    bias: bool = False,
    activation: str = "none",
    tokens: Sequence[int] | None = None,
    jobs: int | None = 1,
    on: str = "local",
    address: str | None = None,
    seconds: float | None = None,
    close: float = CLOSE,
    progress: Callable[[TuneProgress], None] | None = None,
) -> list[Tuned]:
    """The best kernel of each matrix product C[M, N] = op(A) @ op(B), without a GPU.

    What is predicted is the model's, not measured. The answer does not depend on ``jobs``.

    Args:
        shapes: ``4096x4096x8192``, (4096, 4096, 8192), a model (``llama-3-8b``), a file with one
            M N K a line, or several of them.
        target: The chip: MI355X, MI350X, MI325X, MI300X; or one of your own, whose name begins with
            that of the GPU it is the compute unit of.
        dtype: The type of A and B: bf16, fp16, fp8, bf8, mxfp8 or mxfp4.
        layout: How A and B are stored. A as M x K (``N``) or K x M (``T``), B as K x N (``N``) or
            N x K (``T``).
        batches: How many products of each shape are computed at once.
        alpha: Whether the product is multiplied by a number.
        beta: Whether a number times what C was is added.
        scales: Whether every row and every column has a factor.
        bias: Whether every column has a number that is added.
        activation: What is done with each element last: none, relu, silu or gelu.
        tokens: The rows of A for a model's shapes; 1024, 4096 and 16384 unless given.
        jobs: Processes that time blocks; None is one per core. More than one starts processes
            that import the calling script, which then needs ``if __name__ == "__main__":``.
        on: Who times blocks: ``local`` or ``ray``.
        address: The Ray cluster; a local one is started without it.
        seconds: When to stop, with the best so far; every shape gets a first kernel.
        close: Stop where nothing left can be so many times as fast; 1 is exact.
        progress: Told of every block that was timed.
    """
    words = [_word(shape) for shape in ([shapes] if _is_shape(shapes) else shapes)]
    check_known(on, PLACES, f"on is {on!r}", "on")
    if address is not None and on != "ray":
        raise ConfigError("an address is that of a Ray cluster", hint="add on='ray'", field="on")
    if tokens is not None and not any(word.lower() in MODELS for word in words):
        raise ConfigError(
            f"tokens are for a model's shapes, and {' '.join(words)} is none",
            hint=f"leave tokens out, or name one of {', '.join(MODELS)}",
            field="tokens",
        )
    finish = Finish(alpha, beta, scales, bias, activation)
    asked = problems(words, dtype, tuple(tokens or TOKENS), layout, batches, finish)
    gpu = gpu_for(target)
    scaled = dtype_for(dtype).scale is not None
    if scaled and not any(op.scaled for op in gpu.target.matrix_ops):
        raise ConfigError(
            f"{gpu.chip} has no matrix instruction for {dtype}",
            hint="gfx950 has: use target MI355X or MI350X, or a dtype without block scales",
            field="dtype",
        )
    store = Store.usual()

    def engine() -> Engine:
        if on == "ray":
            return OnRay(store, address, jobs)
        return Inline(store) if jobs == 1 else Processes(store, jobs)

    return search.tune(
        asked,
        gpu,
        engine=engine,
        store=store,
        close=close,
        seconds=seconds,
        progress=progress,
    )


def gemm(m: int, n: int, k: int, **options: Any) -> TunedKernel:
    """The best kernel of one matrix product C[m, n] = op(A) @ op(B), tuned, proved and assembled.

    Args:
        m: Rows of C.
        n: Columns of C.
        k: The depth of the sums.
        options: Those of ``tune``: target, dtype, layout, batches, alpha, beta, scales, bias,
            activation, jobs, seconds, close and so on.
    """
    for name, size in (("m", m), ("n", n), ("k", k)):
        check_int("gemm", name, size, 1)
    _check_options("gemm", options)
    (found,) = tune((plain_int(m), plain_int(n), plain_int(k)), **options)
    return TunedKernel(found, kernel_of(found.spec))


def library(
    shapes: Shape | Sequence[Shape],
    folder: str | PathLike[str],
    *,
    torch: bool = False,
    name: str = USUAL_NAME,
    **options: Any,
) -> TunedLibrary:
    """The best kernels of many shapes as a folder that C and Python can call, without pipeloom.

    Args:
        shapes: Those of ``tune``.
        folder: Where it is written; made where it is not there.
        torch: Whether its package has ops of PyTorch: ``import pipeloom_gemm.ops`` defines
            ``torch.ops.pipeloom_gemm.gemm``.
        name: What its package, and the namespace of its ops, is called.
        options: Those of ``tune``.
    """
    _check_options("library", options)
    check_package_name(name)
    found = tune(shapes, **options)
    written = write_library(found, Path(folder), name=name, torch=torch)
    return TunedLibrary(Path(folder), tuple(found), tuple(written))


def check_kernel_file(path: Path) -> None:
    """Refuse a name that does not say which form is meant."""
    if path.suffix not in ENDINGS:
        raise SpecError(
            f"{path} ends in {path.suffix!r}",
            hint="use .hsaco for a code object or .s for assembly",
            field="output",
        )


def _check_options(call: str, options: Mapping[str, Any]) -> None:
    known = [name for name in signature(tune).parameters if name != "shapes"]
    for name in options:
        check_known(name, known, f"{call} has no option {name!r}", name)


def _is_shape(given: object) -> bool:
    sizes = isinstance(given, tuple) and len(given) == 3 and all(type(one) is int for one in given)
    return isinstance(given, str) or sizes


def _word(shape: object) -> str:
    if isinstance(shape, str):
        return shape
    if not _is_shape(shape):
        raise SpecError(
            f"{shape!r} is not a shape",
            hint="write (4096, 4096, 8192) or '4096x4096x8192'",
            field="shapes",
        )
    assert isinstance(shape, tuple)
    return "x".join(map(str, shape))

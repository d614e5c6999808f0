"""A matrix product as a caller means it: sizes, types, how operands lie, what follows the sum.

    GemmProblem(4096, 4096, 8192, "fp8", finish=Finish(bias=True, activation="gelu")).flops

One record for everything that asks about a product: the model of the whole GPU, the search for the
best kernel, estimates of simulated tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeloom.checks import check_known
from pipeloom.declare.activations import activation_for
from pipeloom.errors import SpecError
from pipeloom.machine.dtypes import BF16, F32, F64, FP4, FP6, FP8, dtype_for

MOST = 1 << 31
LAYOUTS = ("NN", "NT", "TN", "TT")
"""Of A and B: N as in the formula, T stored transposed."""


def stored_dims(layout: str) -> dict[str, tuple[str, str]]:
    """The dimensions of A and B as they lie in memory, rows first; refuses what is no layout."""
    check_known(layout, LAYOUTS, f"layout is {layout!r}", "layout")
    return {
        "A": ("m", "k") if layout[0] == "N" else ("k", "m"),
        "B": ("n", "k") if layout[1] == "T" else ("k", "n"),
    }


@dataclass(frozen=True, slots=True, order=True)
class Finish:
    """What follows the sum: activation(alpha * sum + beta * C + bias), each only where asked for.

    ``scales`` multiply every element of the sum with one of its row and one of its column; C is
    what it was. Vectors are f32.
    """

    alpha: bool = False
    beta: bool = False
    scales: bool = False
    bias: bool = False
    activation: str = "none"

    def __post_init__(self) -> None:
        activation_for(self.activation)

    def __str__(self) -> str:
        names = [name for name in ("scales", "alpha", "beta", "bias") if getattr(self, name)]
        return ", ".join(names + ([] if self.activation == "none" else [self.activation]))


PLAIN = Finish()
"""Nothing."""


@dataclass(frozen=True, slots=True, order=True)
class GemmProblem:
    """C[M, N] = op(A) @ op(B) with elements of ``dtype``, C with elements of ``out``.

    ``layout`` has a letter for A, stored as M x K (N) or K x M (T), and one for B, stored as K x N
    (N) or N x K (T). There are ``batches`` of it, and ``finish`` is what is done with each.
    """

    m: int
    n: int
    k: int
    dtype: str = "bf16"
    out: str = "bf16"
    layout: str = "NT"
    batches: int = 1
    finish: Finish = PLAIN

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "batches"):
            size = getattr(self, name)
            if type(size) is not int or not 0 < size < MOST:
                raise SpecError(
                    f"{name.upper()} is {size!r}",
                    hint=f"sizes are whole numbers from 1 to {MOST - 1}",
                    field=name,
                )
        scale = dtype_for(self.dtype).scale
        if scale is not None and self.k % scale.size:
            raise SpecError(
                f"K is {self.k}, and {scale.size} elements of {self.dtype} share a scale",
                hint=f"pad it with zeros to {-(-self.k // scale.size) * scale.size}",
                field="k",
            )
        stored_dims(self.layout)

    @property
    def rows(self) -> tuple[int, int]:
        """Elements of a row of A, and of B, as they are stored."""
        dims = stored_dims(self.layout)
        return getattr(self, dims["A"][1]), getattr(self, dims["B"][1])

    @property
    def reads_c(self) -> bool:
        """Whether C is read as well as written."""
        return self.finish.beta

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k * self.batches

    @property
    def element_bytes(self) -> float:
        """Of an element of A or B."""
        return dtype_for(self.dtype).bits / 8

    @property
    def out_bytes(self) -> float:
        """Of an element of C."""
        return dtype_for(self.out).bits / 8

    @property
    def in_bytes(self) -> tuple[float, float]:
        """The same, with its share of a block scale: of A, and of B."""
        scale = dtype_for(self.dtype).scale
        each = self.element_bytes + (0 if scale is None else 1 / scale.size)
        return each, each

    def __str__(self) -> str:
        batches = f" x {self.batches}" if self.batches > 1 else ""
        return f"{self.m}x{self.n}x{self.k}{batches}"


def some_type(size: float) -> str:
    """Some type of so many bytes, for the model of the whole GPU."""
    return next(d.name for d in (BF16, FP8, F32, FP4, FP6, F64) if d.bits == 8 * size)

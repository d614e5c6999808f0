"""What is asked: matrix products by their sizes, one by one, in a file, or of a known model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pipeloom.checks import check_known, nearest
from pipeloom.declare.gemm_problem import PLAIN, Finish, GemmProblem
from pipeloom.errors import SpecError
from pipeloom.files import read_text, reading
from pipeloom.machine.dtypes import BF16, dtype_for, stored_as

DTYPES = ("bf16", "fp16", "fp8", "bf8", "mxfp8", "mxfp4")
"""Element types of A and B that kernels are tuned for."""
TOKENS = (1024, 4096, 16384)
"""Rows of A where a model is named and nothing else is said."""

_SIZES = re.compile(r"[-\dxX,;.\s]+")
"""What is meant to be a shape."""
_SHAPE = re.compile(r"\s*(\d+)\s*[xX,;\s]\s*(\d+)\s*[xX,;\s]\s*(\d+)\s*")


@dataclass(frozen=True, slots=True)
class Transformer:
    """The sizes of a decoder layer; all from the model's published configuration."""

    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int

    def shapes(self, tokens: int) -> tuple[tuple[int, int, int], ...]:
        """QKV, output, gate and up, down, logits."""
        heads = self.heads * self.head
        return (
            (tokens, heads + 2 * self.kv_heads * self.head, self.hidden),
            (tokens, self.hidden, heads),
            (tokens, 2 * self.feed_forward, self.hidden),
            (tokens, self.hidden, self.feed_forward),
            (tokens, self.vocabulary, self.hidden),
        )


MODELS: Mapping[str, Transformer] = MappingProxyType(
    {
        "llama-3-8b": Transformer(4096, 14336, 32, 8, 128, 128256),
        "llama-3-70b": Transformer(8192, 28672, 64, 8, 128, 128256),
        "llama-3-405b": Transformer(16384, 53248, 128, 8, 128, 128256),
        "qwen-3-8b": Transformer(4096, 12288, 32, 8, 128, 151936),
        "qwen-3-32b": Transformer(5120, 25600, 64, 8, 128, 151936),
    }
)
"""Models whose shapes can be asked for by name."""


def problems(
    asked: Sequence[str],
    dtype: str,
    tokens: Sequence[int] = TOKENS,
    layout: str = "NT",
    batches: int = 1,
    finish: Finish = PLAIN,
) -> tuple[GemmProblem, ...]:
    """Every problem that the words name, each once, in their order.

    A word is a shape (4096x4096x8192), a model, or a file of shapes.
    """
    said = f"dtype {dtype!r} is not one that kernels are tuned for"
    check_known(dtype, DTYPES, said, "dtype", SpecError)
    found: dict[GemmProblem, None] = {}
    for word in asked:
        for m, n, k in _sizes(word, tokens):
            found.setdefault(GemmProblem(m, n, k, dtype, out_type(dtype), layout, batches, finish))
    if not found:
        raise SpecError("no shape is given", hint="for example 4096x4096x8192", field="shapes")
    return tuple(found)


def out_type(dtype: str) -> str:
    """The type of C."""
    return stored_as(dtype_for(dtype), BF16).name


def _sizes(word: str, tokens: Sequence[int]) -> Iterable[tuple[int, int, int]]:
    if (match := _SHAPE.fullmatch(word)) is not None:
        return [(int(match[1]), int(match[2]), int(match[3]))]
    if word.lower() in MODELS:
        return [shape for count in tokens for shape in MODELS[word.lower()].shapes(count)]
    path = Path(word)
    if path.is_file():
        return _read(path)
    if _SIZES.fullmatch(word):
        raise SpecError(
            f"{word!r} is not a shape", hint="write M x N x K, as 4096x4096x8192", field="shapes"
        )
    raise SpecError(
        f"{word!r} is no shape, no model and no file",
        hint=f"a shape is 4096x4096x8192; of models, {nearest(word, MODELS)}",
        field="shapes",
    )


def _read(path: Path) -> list[tuple[int, int, int]]:
    """One shape a line, M N K with x, commas or spaces between; # starts a comment."""
    with reading(path, "a text file, one M N K a line", "shapes"):
        lines = read_text(path).splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text or (number == 1 and not any(c.isdigit() for c in text)):
            continue
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise SpecError(
                f"{path}:{number}: {text[:60]!r} is not a shape",
                hint="one M N K a line, with x, commas or spaces between",
                field="shapes",
            )
        found.append((int(match[1]), int(match[2]), int(match[3])))
    return found

"""Shapes as people write them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeloom.declare.gemm_problem import GemmProblem
from pipeloom.errors import ScheduleError
from pipeloom.machine.gpus import GPUS, gpu_for
from pipeloom.tuning.shapes import MODELS, problems


def test_shapes_files_and_models(tmp_path: Path) -> None:
    path = tmp_path / "shapes.csv"
    path.write_text("m,n,k\n1024, 2048, 512  # a comment\n\n1024x2048x512\n7 8 9\n")
    found = problems(["4096x4096X64", str(path), "4096x4096x64"], "fp16")
    assert [str(p) for p in found] == ["4096x4096x64", "1024x2048x512", "7x8x9"]
    assert {p.dtype for p in found} == {"fp16"}
    layer = problems(["llama-3-8b"], "bf16", tokens=(16,))
    # QKV: 32 + 2 * 8 heads of 128; gate and up side by side.
    assert [str(p) for p in layer[:3]] == ["16x6144x4096", "16x4096x4096", "16x28672x4096"]
    # As the manual of ``tune`` says, unless tokens are given.
    assert {p.m for p in problems(["llama-3-8b"], "bf16")} == {1024, 4096, 16384}
    assert all(len(model.shapes(1)) == 5 for model in MODELS.values())


def test_models_have_the_parameters_they_are_named_after() -> None:
    """By the weights of all layers, and of the words at either end."""
    layers = {
        "llama-3-8b": 32,
        "llama-3-70b": 80,
        "llama-3-405b": 126,
        "qwen-3-8b": 36,
        "qwen-3-32b": 64,
    }
    for name, model in MODELS.items():
        *layer, words = (n * k for _, n, k in model.shapes(1))
        billions = (layers[name] * sum(layer) + 2 * words) / 1e9
        assert billions == pytest.approx(float(name.split("-")[-1][:-1]), rel=0.025), name
        assert model.heads % model.kv_heads == 0


@pytest.mark.parametrize(
    ("words", "dtype", "part"),
    [
        (["0x1x1"], "bf16", "M is 0"),
        (["1x1x2147483648"], "bf16", "K is 2147483648"),
        (["12x34"], "bf16", "is not a shape"),
        (["nothing.txt"], "bf16", "no shape, no model and no file"),
        (["llama-3-80b"], "bf16", "no shape, no model and no file"),
        (["64x64x100"], "mxfp8", "32 elements of mxfp8 share a scale"),
        (["1x1x1"], "bf61", "did you mean 'bf16'"),
        ([], "bf16", "no shape is given"),
    ],
)
def test_what_is_no_problem(words: list[str], dtype: str, part: str) -> None:
    with pytest.raises(ScheduleError, match=part):
        problems(words, dtype)


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "shapes.txt"
    path.write_text("1 2 3\n4 5\n")
    with pytest.raises(ScheduleError, match=r"shapes.txt:2: '4 5' is not a shape"):
        problems([str(path)], "bf16")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScheduleError, match="cannot read"):
        problems([str(path)], "bf16")


def test_sizes_are_whole_numbers() -> None:
    with pytest.raises(ScheduleError, match=r"N is 2\.5"):
        GemmProblem(1, 2.5, 3)  # type: ignore[arg-type]


def test_chips_by_name_and_architecture() -> None:
    assert gpu_for("mi325x").arch == "gfx942"
    assert gpu_for("gfx950").chip == "MI355X"
    assert len({gpu.chip for gpu in GPUS}) == len(GPUS)
    with pytest.raises(ScheduleError, match="unknown target"):
        gpu_for("H100")

"""Which family a kernel is of, told from its metadata, its symbol and the files beside it.

draft = found_draft(file.kernel, "k.hsaco")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from pipeloom.checks import check_known
from pipeloom.errors import SpecError
from pipeloom.judge.emulate import CodeKernel
from pipeloom.launch_families.described import described
from pipeloom.launch_families.drafts import Draft, field_types
from pipeloom.launch_families.tensile_kernels import tensile_launch
from pipeloom.launch_families.triton_launches import triton_launch
from pipeloom.machine_code.c_structs import StructField

Looker = Callable[[CodeKernel, str], Draft | None]


def _aiter(kernel: CodeKernel, path: str) -> Draft | None:
    return described("aiter", kernel)


def _ck(kernel: CodeKernel, path: str) -> Draft | None:
    return described("ck", kernel)


def _tensile(kernel: CodeKernel, path: str) -> Draft | None:
    return tensile_launch(kernel)


def _any(kernel: CodeKernel, path: str, fields: Sequence[StructField] = ()) -> Draft:
    """Of a family that nobody knows, every argument is asked for."""
    said = kernel.metadata
    return Draft(
        "unknown",
        {"grid_x": None, "grid_y": 1, "grid_z": 1},
        ["grid_x", "grid_y", "grid_z"],
        list(said.required_block or (said.max_work_items or 64, 1, 1)),
        0,
        field_types(fields),
        fields=fields,
    )


FAMILIES: Mapping[str, Looker] = MappingProxyType(
    {"triton": triton_launch, "aiter": _aiter, "tensile": _tensile, "ck": _ck}
)
"""Those that are looked for, in this order."""


def found_draft(
    kernel: CodeKernel,
    path: str,
    family: str | None = None,
    fields: Sequence[StructField] = (),
) -> Draft:
    """The draft of a kernel: of the family named, or of the first that knows it."""
    if fields or family == "any":
        return _any(kernel, path, fields)
    if family is not None:
        known = [*FAMILIES, "any"]
        check_known(family, known, f"there is no family {family!r}", "family", SpecError)
    lookers = FAMILIES.values() if family is None else [FAMILIES[family]]
    draft = next(filter(None, (look(kernel, path) for look in lookers)), None)
    if draft is None and family is not None:
        raise SpecError(
            f"{kernel.name} is no kernel of {family} that is known",
            hint="leave the family out, and say its sizes by the names of its arguments",
            field="family",
        )
    return _any(kernel, path) if draft is None else draft

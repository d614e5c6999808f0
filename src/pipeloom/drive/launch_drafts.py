"""A launch file for a kernel, from its metadata and sizes: of a family that is known, or of any.

plain = draft_launch("k.hsaco", {"M": 512, "N": 512, "K": 256})
launch_text(plain); unknown(plain)             # the file; sizes that are still asked for
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeloom.drive.kernel_files import KernelFile
from pipeloom.drive.python_files import named_object
from pipeloom.errors import SpecError
from pipeloom.launch_families.drafts import drafted, unknown
from pipeloom.launch_families.finding import found_draft
from pipeloom.machine_code.c_structs import StructField, ctypes_layout, header_layout
from pipeloom.machine_code.launch_file import LaunchSpec, launch_of, launch_text
from pipeloom.machine_code.launch_template import template


@dataclass(frozen=True, slots=True)
class DraftedLaunch:
    """A launch file before it is written."""

    family: str
    """What the kernel was taken for."""
    plain: Mapping[str, Any]
    """The launch file's data."""
    asked: tuple[str, ...]
    """Sizes that are not given."""

    def text(self) -> str:
        """The launch file."""
        return launch_text(self.plain)

    def launch(self) -> LaunchSpec:
        """The launch, where every size is given."""
        if self.asked:
            example = ",".join(f"{name}=..." for name in self.asked)
            raise SpecError(
                f"a launch of this kernel ({self.family}) needs {', '.join(self.asked)}",
                hint=f"say --sizes {example}",
                field="sizes",
            )
        return launch_of(self.plain)


def draft_launch(
    file: KernelFile,
    sizes: Mapping[str, int | str],
    *,
    family: str | None = None,
    struct: str | None = None,
) -> DraftedLaunch:
    """Draft the launch of a kernel.

    Args:
        file: The kernel.
        sizes: Numbers for its sizes, and for arguments that its family says nothing of.
        family: Which it is of; found out unless given.
        struct: What its arguments are, as ``args.h:Args`` or ``my.py:Args``.
    """
    fields = () if struct is None else struct_layout(struct)
    draft = found_draft(file.kernel, file.name, family, fields)
    lds = draft.dynamic_lds
    if draft.family == "unknown":
        lds = template(file.kernel).dynamic_lds
    plain = {**drafted(file.kernel, draft, sizes), "dynamic_lds": lds}
    return DraftedLaunch(draft.family, plain, unknown(plain))


def struct_layout(named: str) -> tuple[StructField, ...]:
    """The fields of a struct of a header, or of a class of ctypes."""
    if named.rpartition(":")[0].endswith(".py"):
        return ctypes_layout(named_object(named, "struct"))
    path, _, struct = named.partition(":")
    return header_layout(f"{Path(path)}:{struct}")

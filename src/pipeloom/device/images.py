"""A kernel as it is kept: its code objects by symbol, and the record that says how to launch them.

image = KernelImage.read("k.hsaco")        # with k.json beside it, and what that names
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .contracts import FORMAT
from .hip_errors import DeviceError

PROVED = "PROVED"


@dataclass(frozen=True, slots=True)
class KernelImage:
    """Code objects and their record."""

    record: Mapping[str, Any]
    """How to launch it: that of ``pipeloom emit`` and ``pipeloom gemm``, or a fixed launch."""
    codes: Mapping[str, bytes]
    """The code object of every kernel, by symbol."""

    @property
    def proved(self) -> bool:
        """Whether the record says that it is PROVED."""
        return bool(self.record.get("verdict") == PROVED)

    def require_proved(self, unproved: bool) -> None:
        """Refuse what is not PROVED, unless the caller takes it on himself.

        Args:
            unproved: Whether he does.
        """
        if self.proved or unproved:
            return
        said = self.record.get("verdict")
        said = f"is {said}, not PROVED" if said else "was written by others, and is not judged"
        raise DeviceError(
            f"{self.record['kernel']} {said}",
            hint="pipeloom fix proves a schedule, pipeloom check judges others' kernels; to launch "
            "it all the same: unproved=True, or --unproved",
            field="unproved",
        )

    @classmethod
    def read(cls, path: str | Path, record: Mapping[str, Any] | None = None) -> KernelImage:
        """A code object, with those that its record names beside it.

        Args:
            path: The code object.
            record: The record, where it is not the one beside it.
        """
        first = Path(path)
        if record is None:
            place = record_path(first)
            record = read_record(place)
            if record is None:
                raise DeviceError(
                    f"no record beside {first} says how to launch it ({place.name})",
                    hint="pipeloom emit SOURCE -o K.hsaco writes one; of others' kernels pass a "
                    f"launch file: pipeloom check {first} --template writes it",
                    field="record",
                )
        return cls(record, {name: _bytes(file) for name, file in _codes(first, record).items()})


def record_path(code: str | Path) -> Path:
    """Where the record of a code object lies, or goes: ``k.json``, unless that is another file.

    Then it is ``k.launch.json``: a schedule may have the name of the kernel that is made of it.
    """
    usual, other = (Path(code).with_suffix(end) for end in (".json", ".launch.json"))
    taken = usual.is_file() or (other.is_file() and read_record(other) is not None)
    return other if taken and read_record(usual) is None else usual


def read_record(path: Path) -> dict[str, Any] | None:
    """The launch record in a file; None where there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def image_files(code: str | Path) -> tuple[Path, ...]:
    """Everything that ``KernelImage.read`` reads: the code object, its record, what that names."""
    first, place = Path(code), record_path(code)
    record = read_record(place)
    return (first,) if record is None else (place, *_codes(first, record).values())


def _codes(first: Path, record: Mapping[str, Any]) -> dict[str, Path]:
    """The file of every kernel, by symbol."""
    parts = [record.get("then"), *dict(record.get("before") or {}).values()]
    beside = [part for part in parts if isinstance(part, Mapping)]
    return {
        str(record["kernel"]): first,
        **{str(one["kernel"]): first.with_name(Path(one["file"]).name) for one in beside},
    }


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DeviceError(
            f"cannot read {path}: {error.strerror}",
            hint="the record beside the code object names it; write both anew",
            field="kernel",
        ) from error

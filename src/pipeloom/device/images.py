"""A kernel as it is kept: its code objects by symbol, and the record that says how to launch them.

image = KernelImage.read("k.hsaco")        # with k.json beside it, and what that names
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
            record = _record(first)
        codes = {str(record["kernel"]): _bytes(first)}
        parts = [record.get("then"), *dict(record.get("before") or {}).values()]
        for part in parts:
            if isinstance(part, Mapping):
                codes[str(part["kernel"])] = _bytes(first.with_name(Path(part["file"]).name))
        return cls(record, codes)


def _record(code: Path) -> Mapping[str, Any]:
    for place in (code.with_suffix(".launch.json"), code.with_suffix(".json")):
        try:
            found = json.loads(place.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and "arguments" in found and "kernel" in found:
            return found
    raise DeviceError(
        f"no record beside {code} says how to launch it ({code.stem}.json)",
        hint="pipeloom emit SOURCE -o K.hsaco writes one; of others' kernels pass a launch file: "
        f"pipeloom check {code} --template writes it",
        field="record",
    )


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DeviceError(
            f"cannot read {path}: {error.strerror}",
            hint="the record beside the code object names it; write both anew",
            field="kernel",
        ) from error

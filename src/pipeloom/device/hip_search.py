"""Where HIP's library lies: ROCm 6, 7 and 10, wheels of ROCm and of PyTorch.

    place = find_hip()
    place.path, place.found_by        # /opt/rocm/lib/libamdhip64.so.7, "/opt/rocm"

The order is that of Triton's driver, but for one rule: a HIP that the process has mapped already is
the one that is used, as two of them in one process do not know of each other's memory and streams.
``libamdhip64.so`` without a number exists in development packages only (TheRock's wheels have
none), ``.so.6`` is ROCm 6, ``.so.7`` ROCm 7 and 10, ``.so.8`` is expected; from 7.14 on ROCm may
lie in ``/opt/rocm/core-VERSION`` alone.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .hip_errors import DeviceError

VARIABLE = "PIPELOOM_HIP_LIBRARY"
"""Environment variable: the path of the library, and no search."""
STEM = "libamdhip64.so"
NAMES = tuple(STEM + number for number in (".7", ".6", ".8", ""))
"""As the loader knows them, the likeliest first."""
ROCM = Path("/opt/rocm")
MAPS = Path("/proc/self/maps")


@dataclass(frozen=True, slots=True)
class HipPlace:
    """A HIP library, and what led to it."""

    path: str
    """The file, or a name that the loader finds."""
    found_by: str
    """Where it was looked for."""


def mapped_libraries(maps: Path = MAPS) -> list[str]:
    """The HIP libraries that this process has loaded already, by anyone."""
    try:
        lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    paths = (line.split(maxsplit=5)[5] for line in lines if STEM in line)
    return list(dict.fromkeys(path for path in paths if Path(path).name.startswith(STEM)))


def candidates(
    environment: Mapping[str, str] = os.environ, rocm: Path = ROCM
) -> Iterator[HipPlace]:
    """Where to look, in order; files that exist, then names for the loader, then ROCm's folder."""
    yield from _in_rocm_wheels()
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin is not None:
        yield from _in_folder(Path(torch.origin).parent / "lib", "PyTorch's libraries")
    for listed in environment.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if listed:
            yield from _in_folder(Path(listed), "LD_LIBRARY_PATH")
    for name in ("HIP_PATH", "ROCM_PATH"):
        if environment.get(name):
            yield from _in_folder(Path(environment[name]) / "lib", name)
    yield from (HipPlace(name, "the loader") for name in NAMES)
    yield from _in_folder(rocm / "lib", str(rocm))
    for folder in sorted(rocm.glob("core-*"), reverse=True):
        yield from _in_folder(folder / "lib", str(folder))


def find_hip(
    environment: Mapping[str, str] = os.environ,
    load: Callable[[str], ctypes.CDLL] = ctypes.CDLL,
    maps: Path = MAPS,
    rocm: Path = ROCM,
) -> tuple[HipPlace, ctypes.CDLL]:
    """The library, loaded; ``DeviceError`` where there is none, or where there are two."""
    given, mapped = environment.get(VARIABLE), mapped_libraries(maps)
    check_single(mapped, given)
    if given:
        try:
            return HipPlace(given, VARIABLE), load(given)
        except OSError as error:
            raise DeviceError(
                f"{VARIABLE} is {given}, which cannot be loaded: {error}",
                hint="name ROCm's libamdhip64.so.7 (or .6), or unset it to have it looked for",
                field=VARIABLE,
            ) from error
    loaded = (HipPlace(path, "loaded already") for path in mapped)
    tried: dict[str, None] = {}
    for place in (*loaded, *candidates(environment, rocm)):
        try:
            return place, load(place.path)
        except OSError:
            tried[place.found_by] = None
    raise DeviceError(
        f"no HIP runtime here: looked for {', '.join(NAMES)} in {', '.join(tried)}",
        hint="install ROCm, or its wheels (pip install rocm[libraries]); "
        f"or name the library by {VARIABLE}",
        field="hip",
    )


def check_single(mapped: list[str], given: str | None = None) -> None:
    """Refuse two HIP libraries in one process: memory of one is unknown to the other."""
    files = {os.path.realpath(path) for path in (*mapped, *([given] if given else []))}
    if len(files) > 1:
        raise DeviceError(
            f"two HIP runtimes in one process: {' and '.join(sorted(files))}",
            hint="neither knows the other's memory. Let all use one: import torch first, or set "
            f"{VARIABLE} to the one that is loaded",
            field="hip",
        )


def _in_folder(folder: Path, found_by: str) -> Iterator[HipPlace]:
    for name in NAMES:
        if (folder / name).is_file():
            yield HipPlace(str(folder / name), found_by)


def _in_rocm_wheels() -> Iterator[HipPlace]:
    """TheRock's wheels say themselves where their libraries lie."""
    if importlib.util.find_spec("rocm_sdk") is None:
        return
    try:
        found = importlib.import_module("rocm_sdk").find_libraries("amdhip64")
    except Exception:  # whatever an unknown version of it raises, the search goes on
        return
    yield from (HipPlace(str(path), "the rocm_sdk wheel") for path in found[:1])

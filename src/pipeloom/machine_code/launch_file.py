"""Launch files: how a kernel that others wrote is started, as JSON that a person can fill in.

    launch = template(load_code_object("k.co"))     # arguments by name, offset and size
    save_launch(launch, "LAUNCH.json")              # fill in shapes and values
    launch = load_launch("LAUNCH.json", {"M": 512})
    run_kernel(code, launch.kernel, grid=launch.grid, block=launch.block, args=launch.arguments())

An argument lies at its ``offset`` in the kernarg segment, whatever the metadata says there, so a
kernel whose metadata lists no arguments, or wrong sizes, can be launched too. Numbers may be
expressions of named sizes (``launch_formulas``); the same file always gives the same bytes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pipeloom.array_kinds import Array
from pipeloom.checks import check_int, check_known
from pipeloom.errors import ConfigError
from pipeloom.files import read_data, write_file
from pipeloom.judge.emulate import Linked, PlacedArg, PointerInto
from pipeloom.machine_code.launch_arguments import LaunchArgument, Raw, Scalar
from pipeloom.machine_code.launch_buffers import MOST_SIZE, Buffer, Link, check_elements
from pipeloom.machine_code.launch_formulas import resolved
from pipeloom.plain import from_plain, to_plain

T = TypeVar("T")
MOST_WORKGROUPS = 1 << 10
"""Of a grid: each is emulated, in a hundredth of a second at best."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """A kernel, its grid (in workgroups) and block (in work-items), and its arguments."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[LaunchArgument, ...]
    dynamic_lds: int | None = 0
    """Bytes of LDS beyond those that the kernel's metadata asks for."""

    def __post_init__(self) -> None:
        for name, sizes in (("grid", self.grid), ("block", self.block)):
            if not 1 <= len(sizes) <= 3:
                raise ConfigError(
                    f"{name} is {list(sizes)}", hint="give one to three sizes", field=name
                )
            for size in sizes:
                check_int("launch", name, size, 1, MOST_SIZE)
        if math.prod(self.grid) > MOST_WORKGROUPS:
            raise ConfigError(
                f"grid is {list(self.grid)}: {math.prod(self.grid)} workgroups",
                hint=f"give at most {MOST_WORKGROUPS}: every one is emulated",
                field="grid",
            )
        if self.dynamic_lds is not None:
            check_int("launch", "dynamic_lds", self.dynamic_lds, 0, MOST_SIZE)

    def more_lds(self) -> int:
        """``dynamic_lds``, which must be filled in."""
        if self.dynamic_lds is None:
            raise ConfigError(
                "the launch has no dynamic_lds, and the kernel uses LDS of which its metadata "
                "knows nothing",
                hint="fill in its bytes; of a kernel by Triton, metadata.shared of its compilation",
                field="dynamic_lds",
            )
        return self.dynamic_lds

    def buffers(self) -> dict[str, Buffer]:
        """The buffers that have an array of their own, by name."""
        own = (a for a in self.args if isinstance(a, Buffer) and a.same_as is None)
        return {buffer.name: buffer for buffer in own}

    def files(self) -> tuple[str, ...]:
        """The files whose contents the launch takes."""
        return tuple(one.file for one in self.buffers().values() if one.file is not None)

    def contents(self) -> dict[str, Array | Linked]:
        """What every buffer holds before the launch, in new arrays."""
        own = self.buffers().values()
        check_elements(
            sum(math.prod(a.whole_shape()) for a in own if a.shape or a.file),
            "the buffers of the launch have",
        )
        found: dict[str, Array | Linked] = {}
        for buffer in own:
            array = buffer.array()
            links = tuple((at, _pointer(buffer, link, found)) for at, link in buffer.links())
            found[buffer.name] = Linked(array, links) if links else array
        return found

    def arguments(self) -> tuple[PlacedArg, ...]:
        """What ``run_kernel`` takes, with new arrays; after the run these hold what it stored."""
        return self.placed(self.contents())

    def placed(self, contents: Mapping[str, Array | Linked]) -> tuple[PlacedArg, ...]:
        """The arguments with these arrays in the buffers."""
        self._check_reached()
        known: dict[str, PointerInto] = {}
        placed = []
        for argument in self.args:
            match argument:
                case Buffer():
                    if argument.same_as is None:
                        at = PointerInto(contents[argument.name])
                    else:
                        at = _known(argument, argument.same_as, known, "same_as")
                        at = PointerInto(at.target, at.byte + argument.byte)
                    known[argument.name] = at
                    if argument.offset is not None:
                        value = at if at.byte else at.target
                        placed.append(PlacedArg(argument.offset, 8, value, argument.name))
                case Scalar():
                    number = argument.number()
                    placed.append(PlacedArg(argument.offset, argument.size, number, argument.name))
                case Raw():
                    data = bytes.fromhex(argument.hex)
                    placed.append(PlacedArg(argument.offset, len(data), data, argument.name))
        return tuple(placed)

    def _check_reached(self) -> None:
        buffers = [one for one in self.args if isinstance(one, Buffer)]
        reached = {link.to for one in buffers for _, link in one.links()}
        reached |= {one.same_as for one in buffers}
        for one in buffers:
            if one.offset is None and one.name not in reached:
                raise ConfigError(
                    f"buffer {one.name} has no offset, and no pointer leads to it",
                    hint="give its offset in the arguments, or name it in another's pointers",
                    field="offset",
                )

    def text(self) -> str:
        """The launch file: JSON with one argument per line."""
        return launch_text({**to_plain(self), "args": [_row(one) for one in self.args]})


def _row(argument: LaunchArgument) -> dict[str, Any]:
    """An argument as plain data; of a buffer that is told what it holds, no more than that."""
    plain: dict[str, Any] = to_plain(argument)
    if not isinstance(argument, Buffer):
        return plain
    told = argument.values or argument.file or argument.cumulative
    usual = {"offset": argument.offset is None, "fill": bool(told or argument.same_as)}
    usual["shape"] = argument.shape is None and bool(told or argument.same_as or argument.pointers)
    return {key: value for key, value in plain.items() if not usual.get(key)}


def launch_text(plain: Mapping[str, Any]) -> str:
    """A launch file of plain data, which may hold sizes and expressions of them."""
    rows = [json.dumps(row) for row in plain["args"]]
    rest = {key: value for key, value in plain.items() if key != "args"}
    head = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in rest.items())
    return f'{{\n{head}  "args": [\n    ' + ",\n    ".join(rows) + "\n  ]\n}\n"


def _pointer(buffer: Buffer, link: Link, known: Mapping[str, Array | Linked]) -> PointerInto | None:
    if link.to is None:
        return None
    return PointerInto(_known(buffer, link.to, known, "pointers"), link.byte)


def _known(buffer: Buffer, name: str, known: Mapping[str, T], field: str) -> T:
    relation = "is the same as" if field == "same_as" else "points to"
    said = f"{buffer.label} {relation} {name!r}, which is no buffer before it"
    check_known(name, known, said, field)
    return known[name]


def load_launch(
    path: str | os.PathLike[str], sizes: Mapping[str, int | str] | None = None
) -> LaunchSpec:
    """Read a launch file.

    Args:
        path: The file; files that it names lie beside it.
        sizes: Other numbers for sizes that the file names.
    """
    name = f"the launch file {path}"
    data = read_data(path, name, "write one with --template and fill it in", form="JSON")
    return launch_of(data, sizes, Path(path).parent, name=name)


def launch_of(
    data: object,
    sizes: Mapping[str, int | str] | None = None,
    folder: Path = Path(),
    *,
    name: str = "the launch",
) -> LaunchSpec:
    """The launch of a file's plain data."""
    return from_plain(LaunchSpec, resolved(data, sizes or {}, folder, name), name=name)


def save_launch(launch: LaunchSpec, path: str | os.PathLike[str]) -> None:
    """Write a launch file; the same launch gives the same bytes."""
    write_file(path, launch.text())

"""Spec files: a schedule, its target and its knobs as JSON or TOML.

    schedule = "ping_pong"
    lgkm_a = 8
    [schedule_config]
    scheduling = "csp"
    [target]
    name = "mi355x"

Keys left out keep the schedule's defaults. Unknown keys, wrong types and values out of range are
errors that name the key and the nearest valid one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, overload

from pipeloom.checks import check_known, nearest
from pipeloom.errors import SpecError
from pipeloom.files import read_data
from pipeloom.plain import from_plain, key_paths
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.reference.compiler import Sync, compile_schedule
from pipeloom.reference.declaration import PipelineSchedule
from pipeloom.reference.schedules import SCHEDULES
from pipeloom.reference.schedules.ping_pong import DeclarativeSchedule

SpecSource = Mapping[str, Any] | str | PathLike[str]
KERNEL_ENDINGS = (".hsaco", ".co", ".o", ".s")
"""Of kernels that others wrote, which have no spec."""
Forms = Mapping[str, type]
"""What a spec of each name holds: the schedules', and those of whoever ships more."""


class UnknownKeyError(SpecError):
    """A setting names a key that the spec does not have; ``names`` are those it has."""

    def __init__(self, key: str, names: list[str]) -> None:
        self.names = names
        super().__init__(f"the spec has no key {key!r}", hint=nearest(key, names), field=key)


def load_spec(source: SpecSource) -> PipelineSchedule:
    """The schedule that a mapping, a file (``.json``, ``.toml``) or a shipped name describes.

    Args:
        source: A mapping, a file's path, or a shipped name.
    """
    data = dict(find_spec(source))
    name = _schedule_name(data)
    del data["schedule"]
    return from_plain(SCHEDULES[name], data, overlay=True, name=f"the {name} spec").build()


@overload
def build_schedule(
    source: PipelineSchedule | SpecSource,
    settings: Iterable[str] = ...,
    *,
    sync: Sync = ...,
    reorder: bool = ...,
) -> CompiledSchedule: ...
@overload
def build_schedule(
    source: bool, settings: int, lgkm_b: int, *, sync: Sync = ..., reorder: bool = ...
) -> CompiledSchedule: ...
@overload
def build_schedule(
    *, is_fp8: bool, lgkm_a: int, lgkm_b: int, sync: Sync = ..., reorder: bool = ...
) -> CompiledSchedule: ...
def build_schedule(
    source: PipelineSchedule | SpecSource | bool | None = None,
    settings: Iterable[str] | int = (),
    lgkm_b: int | None = None,
    *,
    is_fp8: bool | None = None,
    lgkm_a: int | None = None,
    sync: Sync = "reference",
    reorder: bool = False,
) -> CompiledSchedule:
    """Compile a schedule, a spec, or a shipped schedule by name, in one call.

        build_schedule("ping_pong", ["scheduling=greedy"])
        build_schedule("my.toml", sync="proven")
        build_schedule(False, 8, 4)     # DeclarativeSchedule(is_fp8, lgkm_a, lgkm_b)

    Args:
        source: what to compile; or ``is_fp8`` of the ping-pong, by position.
        settings: ``key=value`` strings that change a spec; or ``lgkm_a``, by position.
        lgkm_b: of the ping-pong, lgkmcnt entries of one fragment load of B.
        is_fp8: of the ping-pong, by name: whether its elements are fp8.
        lgkm_a: of the ping-pong, by name: lgkmcnt entries of one fragment load of A.
        sync: whose waits and barriers, as ``compile_schedule`` takes it.
        reorder: whether ops may move to be synchronised, as ``compile_schedule`` takes it.
    """
    if isinstance(source, bool):
        if isinstance(settings, int) and (is_fp8, lgkm_a) == (None, None):
            lgkm_a, settings = settings, ()
        is_fp8, source = source, None
    given = (is_fp8, lgkm_a, lgkm_b)
    if source is None:
        return compile_schedule(_ping_pong(settings, *given), sync=sync, reorder=reorder)
    if isinstance(settings, int) or given != (None, None, None):
        raise SpecError(
            f"is_fp8, lgkm_a and lgkm_b make a schedule of their own, beside {source!r}",
            hint="pass build_schedule(is_fp8, lgkm_a, lgkm_b), or a source and settings",
            field="source",
        )
    if isinstance(source, PipelineSchedule):
        if list(settings):
            raise SpecError(
                "settings change a spec, not a schedule object",
                hint="pass a spec or a schedule's name, or construct the schedule with the values",
                field="settings",
            )
        return compile_schedule(source, sync=sync, reorder=reorder)
    schedule = load_spec(apply_settings(find_spec(source), settings))
    return compile_schedule(schedule, sync=sync, reorder=reorder)


def _ping_pong(
    settings: object, is_fp8: bool | None, lgkm_a: int | None, lgkm_b: int | None
) -> DeclarativeSchedule:
    if settings != () or is_fp8 is None or lgkm_a is None or lgkm_b is None:
        raise SpecError(
            "build_schedule needs a source, or all of is_fp8, lgkm_a and lgkm_b",
            hint='pass build_schedule("ping_pong"), or build_schedule(False, 8, 4)',
            field="source",
        )
    return DeclarativeSchedule(is_fp8, lgkm_a, lgkm_b)


def find_spec(source: SpecSource, forms: Forms = SCHEDULES) -> Mapping[str, Any]:
    """The spec mapping behind a shipped name, a file or a mapping."""
    if isinstance(source, str) and source in forms:
        return {"schedule": source}
    if isinstance(source, str) and not Path(source).suffix and not os.path.exists(source):
        raise SpecError(
            f"{source!r} is neither a shipped schedule nor a spec file",
            hint=nearest(source, forms),
            field="schedule",
        )
    return read_spec(source, forms)


def read_spec(source: SpecSource, forms: Forms = SCHEDULES) -> Mapping[str, Any]:
    """The raw mapping of a spec, from a file if need be; ``forms`` are the names in its place."""
    if isinstance(source, Mapping):
        return source
    if not isinstance(source, str | PathLike):
        raise SpecError(
            f"a spec is a mapping or a path, not {source!r}",
            hint="pass a dict, or the path of a .json or .toml file",
        )
    path = Path(source)
    if path.suffix not in (".json", ".toml"):
        kernel = f"pipeloom check {path} --template L.json, then --launch L.json, judges a kernel; "
        raise SpecError(
            f"{path} is not a spec file: its ending is {path.suffix!r}",
            hint=(kernel if path.suffix in KERNEL_ENDINGS else "")
            + f"use a .json or .toml file, or what is shipped: {', '.join(forms)}",
        )
    form = path.suffix[1:].upper()
    data = read_data(
        path, str(path), "check the path, or correct the file at that place", form=form
    )
    if not isinstance(data, Mapping):
        raise SpecError(
            f"{path} holds a {type(data).__name__}, but a spec is a mapping",
            hint='write it as an object: {"schedule": "ping_pong", ...}',
        )
    return data


def _schedule_name(data: Mapping[str, Any], forms: Forms = SCHEDULES) -> str:
    name = data.get("schedule")
    if name is None:
        raise SpecError(
            "the spec lacks the key 'schedule'",
            hint=f"add schedule = one of {', '.join(forms)}",
            field="schedule",
        )
    said = f"schedule is {name!r}, which is not a shipped schedule"
    check_known(name, list(forms), said, "schedule", SpecError)
    return str(name)


def apply_settings(
    data: Mapping[str, Any], settings: Iterable[str], forms: Forms = SCHEDULES
) -> dict[str, Any]:
    """A copy of a spec with ``key=value`` settings applied.

    A key is a dotted path (``schedule_config.scheduling``) or, where unique, its last part
    (``scheduling``). Values are JSON; anything else is taken as a string.
    """
    result = dict(data)
    paths = list(key_paths(forms[_schedule_name(data, forms)]))
    for setting in settings:
        key, separator, text = str(setting).partition("=")
        if not separator:
            raise SpecError(
                f"{setting!r} is not of the form key=value",
                hint="write for example scheduling=greedy",
                field=key,
            )
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
        *parents, leaf = _resolve(key.strip(), paths).split(".")
        node = result
        for parent in parents:
            inner = node.get(parent, {})
            if not isinstance(inner, Mapping):
                raise SpecError(
                    f"{key}: {parent} is not a mapping in this spec",
                    hint=f"remove {parent} from the spec, or give it as a mapping",
                    field=key,
                )
            child = dict(inner)
            node[parent] = child
            node = child
        node[leaf] = value
    return result


def _resolve(key: str, paths: list[str]) -> str:
    if key in paths or any(key.startswith(f"{p[:-1]}") for p in paths if p.endswith(".*")):
        return key
    matches = [p for p in paths if p.rsplit(".", 1)[-1] == key]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SpecError(
            f"the key {key!r} is ambiguous", hint=f"write one of {', '.join(matches)}", field=key
        )
    raise UnknownKeyError(key, _key_names(paths, dotted="." in key))


def _key_names(paths: list[str], *, dotted: bool) -> list[str]:
    """What a hint offers, sorted: whole paths or last parts; open maps by their own name."""
    closed = [p.removesuffix(".*") for p in paths]
    return sorted({p if dotted else p.rsplit(".", 1)[-1] for p in closed})

"""``Schedule[parameters]``: parameters that fix a schedule's type, written in brackets.

The documents write ``DeclarativeSchedule[False, 8, 4](config, target)``. Here brackets make a
subclass whose constructor has the leading parameters filled in, once for each set of values:

    Fp8 = DeclarativeSchedule[True, 8, 4]
    Fp8(config).schedule_config() == DeclarativeSchedule(True, 8, 4, config).schedule_config()
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from inspect import signature
from typing import Any

from pipeloom.errors import ConfigError

OWN_PARAMETERS = "_template"
"""The attribute of a class made here that holds its parameters."""


def with_parameters(cls: type[Any], names: tuple[str, ...], given: object) -> type[Any]:
    """The subclass of ``cls`` with its leading constructor parameters fixed.

    Args:
        cls: a schedule whose constructor begins with ``names``.
        names: what the brackets hold, in order.
        given: what stood in the brackets.
    """
    values = given if isinstance(given, tuple) else (given,)
    owner = f"{cls.__name__}[{', '.join(names)}]"
    if hasattr(cls, OWN_PARAMETERS):
        raise ConfigError(
            f"{cls.__name__} has its parameters already",
            hint=f"write {cls.__mro__[1].__name__}[...] once",
            field=owner,
        )
    if len(values) != len(names):
        raise ConfigError(
            f"{cls.__name__}[...] got {len(values)} parameter(s), but takes {len(names)}",
            hint=f"write {owner}(...)",
            field=owner,
        )
    made: Callable[..., type[Any]] = _subclass
    try:
        hash(values)
    except TypeError:  # then the constructor says what is wrong with them
        made = _subclass.__wrapped__
    return made(cls, values)


@lru_cache(maxsize=256, typed=True)
def _subclass(cls: type[Any], values: tuple[object, ...]) -> type[Any]:
    def construct(self: Any, *args: Any, **keywords: Any) -> None:
        cls.__init__(self, *values, *args, **keywords)

    whole = signature(cls)
    left = list(whole.parameters.values())[len(values) :]
    return type(
        f"{cls.__name__}[{', '.join(map(repr, values))}]",
        (cls,),
        {
            "__init__": construct,
            "__doc__": cls.__doc__,
            "__module__": cls.__module__,
            "__signature__": whole.replace(parameters=left),
            OWN_PARAMETERS: values,
        },
    )

"""Heads of attention as people count them: ``q_heads`` and ``kv_heads``.

A kernel has a dimension for key heads, ``heads``, and one for the query heads of each, ``group``.
32 query heads that share 8 key heads are 8 heads in groups of 4; both ways of saying it are taken.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pipeloom.errors import ConfigError

DIMENSIONS = {"heads", "group"}


def by_head(dimensions: Collection[str], sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes by the dimensions that a kernel has."""
    names = [name for name in ("q_heads", "kv_heads") if name in sizes]
    if not names or not set(dimensions) >= DIMENSIONS:
        return dict(sizes)
    doubled = sorted(DIMENSIONS & sizes.keys())
    if doubled:
        raise ConfigError(
            f"{names[0]} and {doubled[0]} are both given",
            hint="give q_heads and kv_heads, or heads (of K and V) and group (q_heads / kv_heads)",
            field=names[0],
        )
    queries = sizes.get("q_heads", sizes.get("kv_heads"))
    keys = sizes.get("kv_heads", queries)
    assert type(queries) is int
    assert type(keys) is int
    if keys < 1 or queries < 1 or queries % keys:
        raise ConfigError(
            f"{queries} query heads cannot share {keys} key heads",
            hint="q_heads is a multiple of kv_heads",
            field="q_heads",
        )
    rest = {name: size for name, size in sizes.items() if name not in names}
    return {**rest, "heads": keys, "group": queries // keys}

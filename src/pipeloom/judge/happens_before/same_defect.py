"""Which unordered pairs are one defect.

Without one barrier, every read before it is unordered with every write behind it. Such pairs hang
together: each shares an access, or what should have ordered it, with another one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

Pair = TypeVar("Pair")


def same_defect(
    pairs: Sequence[Pair], ends: Callable[[Pair], Iterable[Hashable]]
) -> list[list[Pair]]:
    """The pairs of each defect, in the order of its first one; pairs that share an end are one."""
    leads: dict[Hashable, int] = {}
    members: list[list[Pair]] = []
    for pair in pairs:
        mine = list(ends(pair))
        known = sorted({leads[end] for end in mine if end in leads})
        into = known[0] if known else len(members)
        members += [] if known else [[]]
        for other in known[1:]:
            members[into] += members[other]
            members[other] = []
            leads.update({end: into for end, group in leads.items() if group == other})
        members[into].append(pair)
        leads.update(dict.fromkeys(mine, into))
    return [group for group in members if group]

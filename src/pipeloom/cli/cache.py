"""``pipeloom cache``: what is kept from earlier runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from pipeloom.cli.options import Command, argument, flag
from pipeloom.cli.printing import print_json
from pipeloom.cli.usage import UsageError
from pipeloom.drive.store import VARIABLE, Store


@dataclass(frozen=True)
class CacheCommand(Command):
    """Programs, timings and kernels that were found are kept, so that asking again costs
    nothing. They lie in one file; ${VARIABLE} names its folder (default: ~/.cache/pipeloom).
    Only the pipeloom that made an entry uses it, so after an update prune --all frees the space
    of the older one.

    Examples:
        pipeloom cache
        pipeloom cache list
        pipeloom cache prune --all
    """

    action: str = argument(None, "size", nargs="?", choices=("size", "list", "prune"))
    """size: how much is kept, and where (the default); list: every entry; prune: forget what is
    damaged or was set aside, with --all everything"""
    all: bool = flag()
    """with prune: forget everything"""

    def run(self) -> int:
        """Look, or forget, and print."""
        if self.all and self.action != "prune":
            raise UsageError("--all is for prune")
        store = Store.usual()
        if self.action == "prune":
            return self._prune(store)
        entries = store.listed()
        plain = {"path": _path(store), "entries": len(entries), "bytes": store.size()}
        if self.json:
            listed = [entry._asdict() for entry in entries]
            print_json({**plain, "listed": listed} if self.action == "list" else plain)
            return 0
        if self.action == "list":
            for entry in entries:
                print(f"{entry.key:<48}  {entry.kind:<8}  {entry.bytes:>9}")
        kinds = Counter(entry.kind for entry in entries)
        counted = ", ".join(f"{kinds[kind]} {kind}" for kind in sorted(kinds))
        place = plain["path"] or f"nothing is kept ({VARIABLE} is off)"
        print(f"{place}: {len(entries)} entries, {store.size() / 1e6:.1f} MB")
        if counted:
            print(f"  {counted}")
        return 0

    def _prune(self, store: Store) -> int:
        before = store.size()
        dropped = store.prune(everything=self.all)
        freed = before - store.size()
        if self.json:
            print_json({"path": _path(store), "dropped": dropped, "freed_bytes": freed})
        else:
            print(f"{dropped} dropped, {freed / 1e6:.1f} MB freed")
        return 0


def _path(store: Store) -> str | None:
    return None if store.path is None else str(store.path)

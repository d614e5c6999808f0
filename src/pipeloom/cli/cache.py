"""``pipeloom cache``: what is kept from earlier runs."""

from __future__ import annotations

import argparse
from collections import Counter

from pipeloom.cli.options import JSON, CommandUsage, flag, option
from pipeloom.cli.printing import print_json
from pipeloom.cli.usage import UsageError
from pipeloom.drive.store import VARIABLE, Store

USAGE = CommandUsage(
    "Programs, timings and kernels that were found are kept, so that asking again costs "
    f"nothing. They lie in one file; ${VARIABLE} names its folder (default: "
    "~/.cache/pipeloom). Only the pipeloom that made an entry uses it, so after an update "
    "prune --all frees the space of the older one.",
    (
        option(
            "action",
            "size: how much is kept, and where (the default); list: every entry; prune: forget "
            "what is damaged or was set aside, with --all everything",
            nargs="?",
            choices=("size", "list", "prune"),
            default="size",
        ),
        flag("--all", "with prune: forget everything"),
        JSON,
    ),
    examples=("pipeloom cache", "pipeloom cache list", "pipeloom cache prune --all"),
)


def run(arguments: argparse.Namespace) -> int:
    """Look, or forget, and print."""
    if arguments.all and arguments.action != "prune":
        raise UsageError("--all is for prune")
    store = Store.usual()
    if arguments.action == "prune":
        return _prune(arguments, store)
    entries = store.listed()
    plain = {"path": _path(store), "entries": len(entries), "bytes": store.size()}
    if arguments.json:
        listed = [entry._asdict() for entry in entries]
        print_json({**plain, "listed": listed} if arguments.action == "list" else plain)
        return 0
    if arguments.action == "list":
        for entry in entries:
            print(f"{entry.key:<48}  {entry.kind:<8}  {entry.bytes:>9}")
    kinds = Counter(entry.kind for entry in entries)
    counted = ", ".join(f"{kinds[kind]} {kind}" for kind in sorted(kinds))
    place = plain["path"] or f"nothing is kept ({VARIABLE} is off)"
    print(f"{place}: {len(entries)} entries, {store.size() / 1e6:.1f} MB")
    if counted:
        print(f"  {counted}")
    return 0


def _prune(arguments: argparse.Namespace, store: Store) -> int:
    before = store.size()
    dropped = store.prune(everything=arguments.all)
    freed = before - store.size()
    if arguments.json:
        print_json({"path": _path(store), "dropped": dropped, "freed_bytes": freed})
    else:
        print(f"{dropped} dropped, {freed / 1e6:.1f} MB freed")
    return 0


def _path(store: Store) -> str | None:
    return None if store.path is None else str(store.path)

"""Synchronisation derived from dependences: the loosest waits, the fewest barriers, a proof."""

from pipeloom.reference.resync.derive import synchronize

__all__ = ["synchronize"]

"""Synchronisation derived from dependences: the loosest waits, the fewest barriers, a proof."""

from pipeloom.sync.derive import synchronize

__all__ = ["synchronize"]

"""Synchronisation derived from data flow: the loosest waits, the fewest barriers, a proof."""

from pipeloom.sync.synchronizer import PROVEN, REPAIRED, synchronize

__all__ = ["PROVEN", "REPAIRED", "synchronize"]

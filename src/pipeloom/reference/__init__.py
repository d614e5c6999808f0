"""The specification's system, op for op: configurations, blocks, phases, schedules, strategies."""

"""Random kernels: declarations, programs for them by a lowering of their own, and broken ones."""

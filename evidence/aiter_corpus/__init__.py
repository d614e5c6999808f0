"""Hand-written gfx950 kernels of ROCm/aiter, launched at small sizes. See ``run``."""

"""Every kernel of ROCm/aiter, scanned: rows by kernel, and the page made of them."""

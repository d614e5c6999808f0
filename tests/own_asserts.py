"""Asserts are taken apart where tests are, not in the package.

pytest does that, to explain what failed, also in packages that bring a plugin, ours among them: it
would compile all of it anew, in each worker.
"""

from __future__ import annotations

import sys

for _finder in sys.meta_path:
    getattr(_finder, "_must_rewrite", set()).discard("pipeloom")
    getattr(_finder, "_marked_for_rewrite_cache", {}).clear()

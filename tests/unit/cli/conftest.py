"""Commands are looked at here, not what they work out."""

from __future__ import annotations

from tests.remembering import remembered

__all__ = ["remembered"]

"""Compiled schedules for people: tables in the terminal.

``__init__.pyi`` lists modules that are imported when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

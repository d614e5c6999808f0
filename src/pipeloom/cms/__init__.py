"""Main loops as MFMA-indexed tables, the way hipBLASLt's engineers write them by hand.

``__init__.pyi`` lists what is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

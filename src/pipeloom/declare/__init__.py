"""What users write: loops over named values, and what they mean in NumPy.

``__init__.pyi`` lists what is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""From a shape to the best kernel: a model of the whole GPU, a search, a library.

``tuning.pages`` is imported when a page is asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

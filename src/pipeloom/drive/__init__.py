"""The driver: one function per job, a request in and a result out; commands only call these.

``__init__.pyi`` lists modules with much behind them that few calls need; ``drive.witnessing`` is
imported when it is first used. So do the other packages that have such a file.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

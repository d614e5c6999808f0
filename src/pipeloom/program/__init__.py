"""The waist: a kernel as one immutable value, its meaning, its steps, its JSON."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

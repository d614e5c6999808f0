"""The kernels that consume schedules: the shipped ones by name, others by what their ops say."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

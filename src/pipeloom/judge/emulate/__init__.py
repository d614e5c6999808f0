"""Execute AMD code objects on the CPU, and punish missing waits. See docs/emulator.md.

``__init__.pyi`` is the list of public names, imported when first used: who asks for one of the
tables here (the writer's judge of wait states does) does not pay for the emulator.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

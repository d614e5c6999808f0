"""The command line: arguments in, text or JSON out; ``commands`` has the table of commands.

``cli.terminal_bar`` is imported when there is a terminal to draw on.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

from . import terminal_bar as terminal_bar

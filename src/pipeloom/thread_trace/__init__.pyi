# The public names: `__init__.py` reads this file.
from .capture import (
    Capture as Capture,
    read_capture as read_capture,
)
from .overlay import (
    InstructionCycles as InstructionCycles,
    Overlay as Overlay,
    lay_over as lay_over,
)
from .viewer_files import viewer_files as viewer_files

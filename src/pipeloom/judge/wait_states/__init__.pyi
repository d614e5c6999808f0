# The public names: `__init__.py` reads this file.
from .assembly import read_assembly as read_assembly
from .early_issue import (
    Shortfall as Shortfall,
    judge as judge,
)
from .effects import (
    Issued as Issued,
    register_name as register_name,
    registers_of as registers_of,
)

# The public names: `__init__.py` reads this file.
from .block_values import blocks_along as blocks_along
from .evaluate import evaluate as evaluate
from .meaning import Meaning as Meaning
from .nodes import (
    Node as Node,
    NodeKind as NodeKind,
    Region as Region,
)
from .program import (
    FORMAT as FORMAT,
    Affine as Affine,
    Group as Group,
    Program as Program,
    Section as Section,
    TripCount as TripCount,
)
from .provenance import (
    Move as Move,
    OrderedBy as OrderedBy,
    Provenance as Provenance,
    SyncMethod as SyncMethod,
)
from .resources import (
    Layout as Layout,
    Resource as Resource,
    Space as Space,
)
from .steps import (
    Access as Access,
    Barrier as Barrier,
    Fence as Fence,
    Issue as Issue,
    Priority as Priority,
    Step as Step,
    Unit as Unit,
    Wait as Wait,
    Work as Work,
)
from .tiles import (
    Box as Box,
    TileType as TileType,
)
from .vocabulary import (
    VOCABULARY as VOCABULARY,
    InBlocks as InBlocks,
    Lowering as Lowering,
    OpDef as OpDef,
    Reduce as Reduce,
    Vocabulary as Vocabulary,
)

# The public names: `__init__.py` reads this file.
from .choice import (
    KERNELS as KERNELS,
    kernel_for as kernel_for,
)
from .derived import reading as reading
from .grid import GridKernel as GridKernel
from .mapping import (
    NO_EFFECT as NO_EFFECT,
    Accumulator as Accumulator,
    EntryRun as EntryRun,
    Kernel as Kernel,
    LdsRead as LdsRead,
    LdsRegion as LdsRegion,
    OpEffect as OpEffect,
    Part as Part,
    RegisterSet as RegisterSet,
    WaitCounter as WaitCounter,
    WalkBuilder as WalkBuilder,
)
from .single_buffer import SingleBufferKernel as SingleBufferKernel

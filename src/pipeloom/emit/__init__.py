"""Machine code from schedules: emit_kernel, assemble."""
from pipeloom.emit.kernel import EmittedKernel, emit_kernel
from pipeloom.emit.assemble import CodeObject, assemble
__all__ = ["CodeObject", "EmittedKernel", "assemble", "emit_kernel"]

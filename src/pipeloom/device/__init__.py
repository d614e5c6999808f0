"""Kernels on a GPU: HIP found and called through ctypes, memory, and launches by their record.

Everything here needs Python alone, and ``errors``: ``pipeloom library`` writes these modules, as
they are, into every library, so that what launches there is what launches here. Modules name each
other relative to themselves for that reason.
"""

"""GEMM emitters, one file per kernel: C[M, N] = A[M, K] B[N, K]^T."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pipeloom.emit.entry import MakeEmitter
from pipeloom.emit.gemm.four_wave import four_wave_emitter
from pipeloom.emit.gemm.ping_pong import ping_pong_emitter
from pipeloom.emit.gemm.single_buffer import single_buffer_emitter

EMITTERS: Mapping[str, MakeEmitter] = MappingProxyType(
    {
        "ping_pong": ping_pong_emitter,
        "four_wave": four_wave_emitter,
        "single_buffer": single_buffer_emitter,
    }
)
"""Schedule name -> its emitter."""

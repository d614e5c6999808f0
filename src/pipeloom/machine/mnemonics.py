"""Which instructions there are, and what wait-state rules ask of each: an allowlist.

What is not here is reported by the judge, not passed.

A pattern stands for the names it expands to: ``v_{add|sub}_f{16|32}`` is four. The names are those
of LLVM's assembler for gfx942 and gfx950, without ``_e32``, ``_e64``, ``_dpp``, ``_sdwa``.

Left out on purpose, because the walk or the register numbers would be wrong: indirect jumps and
calls (s_setpc, s_swappc, s_call, s_rfe), register indexing (s_set_gpr_idx), s_setvskip, forks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from itertools import product
from types import MappingProxyType

from pipeloom.machine.cdna import PROCESSORS


class Pipe(Enum):
    """Who executes an instruction."""

    SALU = "salu"
    SMEM = "smem"
    CONTROL = "control"
    VALU = "valu"
    MATRIX = "matrix"
    LDS = "lds"
    MEMORY = "memory"
    """Buffer, global, flat and scratch."""


class Matrix(Enum):
    """The three kinds of matrix instruction that the tables tell apart."""

    XDL = "XDL"
    SGEMM = "SGEMM"
    """f32 operands that are not xf32."""
    DGEMM = "DGEMM"


@dataclass(frozen=True, slots=True)
class Traits:
    """What the rules ask about a mnemonic. ``results`` is how many operands it writes, in front."""

    unit: Pipe
    results: int = 1
    transcendental: bool = False
    dot: bool = False
    accumulates: bool = False
    """The destination is also the addend."""
    swaps: bool = False
    """Reads and writes its first two operands."""
    writes_exec: bool = False
    reads_vcc: bool = False
    """Without naming it."""
    fma64: bool = False
    permlane: bool = False
    reads_lane: bool = False
    lane_select: bool = False
    """Its last operand selects a lane."""
    partial: int = 0
    """Bits of op_sel that make the result a part of a register; -1: always."""
    reads_m0: bool = False
    data: int | None = None
    """Which operand is the data of a store or an atomic (without a result in front)."""
    atomic: bool = False
    lds_dma: bool = False
    ends: bool = False
    """Control does not fall through."""
    passes: int = 0
    matrix: Matrix | None = None


def expand(pattern: str) -> Iterator[str]:
    """The names that a pattern stands for."""
    parts = re.split(r"\{([^}]*)\}", pattern)
    choices = [part.split("|") if at % 2 else [part] for at, part in enumerate(parts)]
    return ("".join(pieces) for pieces in product(*choices))


_VALU = Traits(Pipe.VALU)
_PLAIN = """
v_mov_b{32|64} v_not_b32 v_bfrev_b32 v_ffb{h_u32|h_i32|l_b32} v_sat_pk_u8_i16 v_prng_b32
v_accvgpr_{read|write|mov}_b32 v_pk_mov_b32 v_screen_partition_4se_b32
v_cvt_{i|u}32_f{32|64} v_cvt_f{32|64}_{i|u}32 v_cvt_f32_f{16|64} v_cvt_f16_f32 v_cvt_f64_f32
v_cvt_{rpi|flr}_i32_f32 v_cvt_off_f32_i4 v_cvt_f32_ubyte{0|1|2|3} v_cvt_f16_{u|i}16
v_cvt_{u|i}16_f16 v_cvt_norm_{i|u}16_f16 v_cvt_f32_{fp8|bf8|bf16} v_cvt_pk_f32_{fp8|bf8}
v_{trunc|ceil|rndne|floor|fract|frexp_mant}_f{16|32|64} v_frexp_exp_i32_f{32|64}
v_frexp_exp_i16_f16
v_{add|sub|subrev|mul|min|max}_f{16|32} v_{add|mul|min|max|ldexp}_f64 v_ldexp_f{16|32}
v_mul_legacy_f32 v_trig_preop_f64
v_mul_{|hi_}{i32_i24|u32_u24} v_{min|max}_{i|u}{16|32} v_{lshrrev|lshlrev}_b{16|32|64}
v_ashrrev_i{16|32|64} v_{and|or|xor|xnor}_b32 v_{fmamk|fmaak}_f32 v_{madmk|madak}_f16
v_{add|sub|subrev}_u{16|32} v_{add|sub}_i{16|32} v_mul_lo_u{16|32} v_mul_hi_{u|i}32
v_mad_{i32_i24|u32_u24} v_cube{id|sc|tc|ma}_f32 v_bfe_{u|i}32 v_bfi_b32 v_bfm_b32
v_lerp_u8 v_alignb{it|yte}_b32 v_{min|max|med}3_{f|i|u}{16|32} v_{minimum|maximum}3_f32
v_sad_{u8|hi_u8|u16|u32} v_msad_u8 v_qsad_pk_u16_u8 v_mqsad_pk_u16_u8 v_mqsad_u32_u8
v_cvt_pk_u8_f32 v_cvt_pkaccum_u8_f32 v_div_fixup_{f16|f32|f64|legacy_f16} v_fma_{f16|f32|legacy_f16}
v_mad_{f16|u16|i16|legacy_f16|legacy_u16|legacy_i16} v_mad_{u32_u16|i32_i16} v_perm_b32
v_xad_u32 v_lshl_add_u{32|64} v_add_lshl_u32 v_add3_u32 v_lshl_or_b32 v_and_or_b32 v_or3_b32
v_bitop3_b{16|32} v_bcnt_u32_b32 v_mbcnt_{lo|hi}_u32_b32 v_pack_b32_f16 v_ashr_pk_{i8|u8}_i32
v_cvt_pknorm_{i|u}16_f{16|32} v_cvt_pkrtz_f16_f32 v_cvt_pk_{u16_u32|i16_i32|f16_f32|bf16_f32}
v_cvt_pk_{fp8|bf8}_f32 v_cvt_sr_{f16|bf16}_f32
v_cvt_scalef32_pk_{fp8|bf8}_{f32|f16|bf16} v_cvt_scalef32_pk_{f32|f16|bf16}_{fp8|bf8|fp4}
v_cvt_scalef32_{f32|f16}_{fp8|bf8} v_cvt_scalef32_2xpk16_{fp6|bf6}_f32
v_cvt_scalef32_{|sr_}pk32_{fp6|bf6}_{f16|bf16} v_cvt_scalef32_sr_pk32_{fp6|bf6}_f32
v_cvt_scalef32_pk32_{f32|f16|bf16}_{fp6|bf6}
v_pk_{mad|add|sub|max|min}_{i|u}16 v_pk_mul_lo_u16 v_pk_{lshlrev|lshrrev}_b16 v_pk_ashrrev_i16
v_pk_{fma|add|mul}_f{16|32} v_pk_{min|max}_f16 v_pk_{minimum|maximum}3_f16
v_{mad|fma}_mix{_f32|lo_f16|hi_f16}
"""
_TRANSCENDENTAL = """
v_{exp|log|rcp|rsq|sqrt|sin|cos}_f{16|32} v_rcp_iflag_f32 v_{exp|log}_legacy_f32
v_{rcp|rsq|sqrt}_f64
"""
_FLOATS = "f|lt|eq|le|gt|lg|ge|o|u|nge|nlg|ngt|nle|neq|nlt|tru"
_COMPARES = (
    f"{{{_FLOATS}|class}}_f{{16|32|64}} {{f|lt|eq|le|gt|ne|ge|t}}_{{i|u}}{{16|32|64}}"
).split()

_ROWS: tuple[tuple[str, Traits], ...] = (
    (_PLAIN, replace(_VALU, partial=8)),
    (_TRANSCENDENTAL, replace(_VALU, transcendental=True, partial=8)),
    ("v_nop v_clrexcp", replace(_VALU, results=0)),
    ("v_cndmask_b32", _VALU),
    ("v_{add|sub|subrev|addc|subb|subbrev}_co_u32", replace(_VALU, results=2)),
    ("v_div_scale_f{32|64} v_mad_{u64_u32|i64_i32}", replace(_VALU, results=2)),
    ("v_div_fmas_f{32|64}", replace(_VALU, reads_vcc=True)),
    ("v_fma_f64", replace(_VALU, fma64=True)),
    ("v_fmac_f64", replace(_VALU, fma64=True, accumulates=True)),
    ("v_fmac_f32 v_mac_f16 v_pk_fmac_f16", replace(_VALU, accumulates=True)),
    (" ".join(f"v_cmp_{c}" for c in _COMPARES), _VALU),
    (" ".join(f"v_cmpx_{c}" for c in _COMPARES), replace(_VALU, writes_exec=True)),
    ("v_readfirstlane_b32", replace(_VALU, reads_lane=True)),
    ("v_readlane_b32", replace(_VALU, reads_lane=True, lane_select=True)),
    ("v_writelane_b32", replace(_VALU, accumulates=True, lane_select=True)),
    ("v_swap_b32", replace(_VALU, results=2, swaps=True)),
    ("v_permlane{16|32}_swap_b32", replace(_VALU, results=2, swaps=True, permlane=True)),
    # Byte selects in two bits of op_sel; for fp4 every value is affected (LLVM getFPDstSelType).
    (
        "v_cvt_sr_{fp8|bf8}_f32 v_cvt_scalef32_sr_{fp8|bf8}_{f32|f16|bf16}",
        replace(_VALU, partial=12),
    ),
    ("v_cvt_scalef32_{|sr_}pk_fp4_{f32|f16|bf16}", replace(_VALU, partial=-1)),
    (
        "v_dot2_f32_{f16|bf16} v_dot2_{i32_i16|u32_u16} v_dot4_{i32_i8|u32_u8} "
        "v_dot8_{i32_i4|u32_u4}",
        replace(_VALU, dot=True),
    ),
    (
        "v_dot2c_f32_{f16|bf16} v_dot2c_i32_i16 v_dot4c_i32_i8 v_dot8c_i32_i4",
        replace(_VALU, dot=True, accumulates=True),
    ),
)

_SALU = Traits(Pipe.SALU)
_SALU_RESULT = """
s_{mov|cmov|not|wqm|brev|quadmask}_b{32|64} s_{bcnt0|bcnt1|ff0|ff1|flbit}_i32_b{32|64}
s_flbit_i32 s_flbit_i32_i64 s_sext_i32_i{8|16} s_bitset{0|1}_b{32|64} s_getpc_b64 s_abs_i32
s_{and|or|xor|andn1|andn2|orn1|orn2|nand|nor|xnor}_saveexec_b64 s_{andn1|andn2}_wrexec_b64
s_bitreplicate_b64_b32
s_{add|sub}_{i|u}32 s_addc_u32 s_subb_u32 s_{min|max}_{i|u}32 s_cselect_b{32|64}
s_{and|or|xor|andn2|orn2|nand|nor|xnor|lshl|lshr|bfm}_b{32|64} s_ashr_i{32|64} s_mul_i32
s_bfe_{i|u}{32|64} s_absdiff_i32 s_mul_hi_{i|u}32 s_lshl{1|2|3|4}_add_u32
s_pack_{ll|lh|hh}_b32_b16 s_movk_i32 s_cmovk_i32 s_addk_i32 s_mulk_i32 s_getreg_b32
"""
_SALU_NO_RESULT = """
s_cmp_{eq|lg|gt|ge|lt|le}_{i|u}32 s_cmp_{eq|lg}_u64 s_bitcmp{0|1}_b{32|64}
s_cmpk_{eq|lg|gt|ge|lt|le}_{i|u}32 s_setreg_b32 s_setreg_imm32_b32
"""
_CONTROL = Traits(Pipe.CONTROL, results=0)
_SCALAR_ROWS: tuple[tuple[str, Traits], ...] = (
    (_SALU_RESULT, _SALU),
    (_SALU_NO_RESULT, replace(_SALU, results=0)),
    ("s_movrel{s|d}_b{32|64}", replace(_SALU, reads_m0=True)),
    ("s_sendmsg s_sendmsghalt s_ttracedata", replace(_CONTROL, reads_m0=True)),
    (
        "s_nop s_waitcnt s_barrier s_setprio s_sleep s_sethalt s_setkill s_trap s_icache_inv "
        "s_wakeup s_incperflevel s_decperflevel s_cbranch_{scc0|scc1|vccz|vccnz|execz|execnz}",
        _CONTROL,
    ),
    ("s_branch s_endpgm s_endpgm_saved", replace(_CONTROL, ends=True)),
    (
        "s_{|buffer_|scratch_}load_dword{|x2|x4} s_{|buffer_}load_dword{x8|x16} s_memtime "
        "s_memrealtime",
        Traits(Pipe.SMEM),
    ),
    (
        "s_dcache_{inv|wb|inv_vol|wb_vol} s_{|buffer_|scratch_}store_dword{|x2|x4}",
        Traits(Pipe.SMEM, results=0),
    ),
    (
        "s_{|buffer_}atomic_{swap|cmpswap|add|sub|smin|umin|smax|umax|and|or|xor|inc|dec}{|_x2}",
        Traits(Pipe.SMEM, accumulates=True),
    ),
)

_DS = Traits(Pipe.LDS)
_DS_ARITHMETIC = (
    "{add|sub|rsub|inc|dec|min|max}{R}_u{32|64}",
    "{min|max}{R}_i{32|64}",
    "{and|or|xor|mskor}{R}_b{32|64}",
    "cmpst{R}_{b|f}{32|64}",
    "{min|max|add}{R}_f{32|64}",
    "pk_add{R}_{f|bf}16",
)
_DS_ROWS: tuple[tuple[str, Traits], ...] = (
    (
        "ds_read_b{32|64|96|128} ds_read2{|st64}_b{32|64} ds_read_{i|u}{8|16} "
        "ds_read_{i8|u8|u16}_d16{|_hi} ds_read_b64_tr_b{4|8|16} ds_read_b96_tr_b6 "
        "ds_{|b}permute_b32 ds_swizzle_b32 ds_wrxchg{|2|2st64}_rtn_b{32|64} ds_wrap_rtn_b32 "
        "ds_condxchg32_rtn_b64 ds_append ds_consume",
        _DS,
    ),
    (" ".join(f"ds_{p.replace('{R}', '_rtn')}" for p in _DS_ARITHMETIC), _DS),
    (
        "ds_nop ds_write_b{8|16|32|64|96|128} ds_write_b{8|16}_d16_hi ds_write2{|st64}_b{32|64}",
        replace(_DS, results=0),
    ),
    (" ".join(f"ds_{p.replace('{R}', '')}" for p in _DS_ARITHMETIC), replace(_DS, results=0)),
    ("ds_read_addtid_b32", replace(_DS, reads_m0=True)),
    (
        "ds_write_addtid_b32 ds_gws_sema_{release_all|v|p} ds_gws_{init|barrier}",
        replace(_DS, results=0, reads_m0=True),
    ),
)

_LOAD = Traits(Pipe.MEMORY)
_SIZES = "{ubyte|sbyte|ushort|sshort|dword|dwordx2|dwordx3|dwordx4}"
_D16 = "{ubyte|sbyte|short}_d16{|_hi}"
_STORED = "{byte|short|dword|dwordx2|dwordx3|dwordx4}"
_FORMATS = "format_{|d16_}{x|xy|xyz|xyzw}"
_ATOMICS = (
    "{swap|cmpswap|add|sub|smin|umin|smax|umax|and|or|xor|inc|dec}{|_x2}",
    "add_f{32|64}",
    "{min|max}_f64",
    "pk_add_{f|bf}16",
)
_SEGMENTS = "{global|flat|scratch}"
_MEMORY_ROWS: tuple[tuple[str, Traits], ...] = (
    (f"buffer_load_{_SIZES} buffer_load_{_D16} {{|t}}buffer_load_{_FORMATS}", _LOAD),
    ("buffer_load_format_d16_hi_x", _LOAD),
    (f"{_SEGMENTS}_load_{_SIZES} {_SEGMENTS}_load_{_D16}", _LOAD),
    (
        "{global|scratch}_load_lds_{ubyte|sbyte|ushort|sshort|dword|dwordx3|dwordx4}",
        replace(_LOAD, results=0, lds_dma=True, reads_m0=True),
    ),
    (
        f"buffer_store_{_STORED} buffer_store_{{byte|short}}_d16_hi {{|t}}buffer_store_{_FORMATS} "
        "buffer_store_format_d16_hi_x",
        replace(_LOAD, results=0, data=0),
    ),
    (
        f"{_SEGMENTS}_store_{_STORED} {_SEGMENTS}_store_{{byte|short}}_d16_hi",
        replace(_LOAD, results=0, data=1),
    ),
    (
        " ".join(f"buffer_atomic_{a}" for a in _ATOMICS),
        replace(_LOAD, results=0, data=0, atomic=True),
    ),
    (
        " ".join(f"{{global|flat}}_atomic_{a}" for a in _ATOMICS),
        replace(_LOAD, results=0, data=1, atomic=True),
    ),
    ("buffer_wbl2 buffer_inv", replace(_LOAD, results=0)),
)

_MATRIX = Traits(Pipe.MATRIX)
_F8 = "{fp8|bf8}_{fp8|bf8}"
_MATRIX_ROWS: tuple[tuple[int, Matrix, str], ...] = (
    # Passes of four cycles: LLVM SISchedule.td, SIDPGFX942FullSpeedModel and
    # SIDPGFX950FullSpeedModel; XDL or not: VOP3PInstructions.td, is_gfx940_xdl.
    (2, Matrix.XDL, "v_mfma_f32_4x4x4_16b_{f16|bf16} v_mfma_i32_4x4x4_16b_i8"),
    (2, Matrix.SGEMM, "v_mfma_f32_4x4x1_16b_f32"),
    (
        4,
        Matrix.XDL,
        "v_mfma_f32_16x16x8_xf32 v_mfma_f32_16x16x{16|32}_{f16|bf16} v_mfma_i32_16x16x{32|64}_i8 "
        f"v_mfma_f32_16x16x32_{_F8}",
    ),
    (8, Matrix.XDL, "v_mfma_f32_16x16x4_4b_{f16|bf16} v_mfma_i32_16x16x4_4b_i8"),
    (8, Matrix.SGEMM, "v_mfma_f32_16x16x1_4b_f32 v_mfma_f32_16x16x4_f32"),
    (
        8,
        Matrix.XDL,
        "v_mfma_f32_32x32x4_xf32 v_mfma_f32_32x32x{8|16}_{f16|bf16} v_mfma_i32_32x32x{16|32}_i8 "
        f"v_mfma_f32_32x32x16_{_F8}",
    ),
    (16, Matrix.XDL, "v_mfma_f32_32x32x4_2b_{f16|bf16} v_mfma_i32_32x32x4_2b_i8"),
    (16, Matrix.SGEMM, "v_mfma_f32_32x32x1_2b_f32 v_mfma_f32_32x32x2_f32"),
    (4, Matrix.DGEMM, "v_mfma_f64_4x4x4_4b_f64"),
    (8, Matrix.DGEMM, "v_mfma_f64_16x16x4_f64"),
    (8, Matrix.XDL, "v_mfma_{|scale_}f32_16x16x128_f8f6f4"),
    (16, Matrix.XDL, "v_mfma_{|scale_}f32_32x32x64_f8f6f4"),
    (
        4,
        Matrix.XDL,
        f"v_smfmac_f32_16x16x{{32|64}}_{{f16|bf16}} v_smfmac_i32_16x16x{{64|128}}_i8 "
        f"v_smfmac_f32_16x16x{{64|128}}_{_F8}",
    ),
    (
        8,
        Matrix.XDL,
        f"v_smfmac_f32_32x32x{{16|32}}_{{f16|bf16}} v_smfmac_i32_32x32x{{32|64}}_i8 "
        f"v_smfmac_f32_32x32x{{32|64}}_{_F8}",
    ),
)


def _table() -> dict[str, Traits]:
    table: dict[str, Traits] = {}
    for patterns, traits in (*_ROWS, *_SCALAR_ROWS, *_DS_ROWS, *_MEMORY_ROWS):
        for pattern in patterns.split():
            table.update(dict.fromkeys(expand(pattern), traits))
    for passes, kind, patterns in _MATRIX_ROWS:
        for pattern in patterns.split():
            for name in expand(pattern):
                accumulates = name.startswith("v_smfmac")
                table[name] = replace(_MATRIX, passes=passes, matrix=kind, accumulates=accumulates)
    return table


MNEMONICS: Mapping[str, Traits] = MappingProxyType(_table())
"""Every instruction that rules are known for, by name."""


def passes_of(name: str, widest: int, processor: str) -> int:
    """Passes of a matrix instruction, of four cycles each, by LLVM's model of a processor.

    ``widest`` is the bits of the wider operand of an f8f6f4 instruction.
    """
    known = MNEMONICS[name]
    if "f8f6f4" in name and widest < 8:
        return known.passes // 2
    if known.matrix is Matrix.DGEMM and known.passes == 8:
        return PROCESSORS[processor].long_f64_passes
    return known.passes


SUFFIXES = ("_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa")


def is_transcendental(name: str) -> bool:
    """Whether an instruction is of the slower unit whose results are near, not rounded correctly;
    ``name`` is its mnemonic."""
    found = traits_of(name)
    return found is not None and found.transcendental


@lru_cache(maxsize=4096)
def traits_of(name: str) -> Traits | None:
    """What rules ask about a mnemonic, with or without the suffix for its encoding."""
    plain = next((name.removesuffix(s) for s in SUFFIXES if name.endswith(s)), name)
    return MNEMONICS.get(plain)

// Two waves exchange numbers through LDS, six times, and one barrier is missing.
//   pipeloom check examples/exchange.s --launch examples/exchange.json --fix fixed.s
.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl exchange
.p2align 8
.type exchange,@function
exchange:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_lshlrev_b32 v1, 2, v0         // this lane's place: 4 bytes per lane
  v_xor_b32 v7, 0x100, v1         // the place of the same lane of the other wave
  v_mov_b32 v5, 0
  s_waitcnt lgkmcnt(0)
  global_load_dword v2, v1, s[4:5]
  s_mov_b32 s8, 6
  s_waitcnt vmcnt(0)
.Lloop:
  v_add_u32 v2, 1, v2
  ds_write_b32 v1, v2             // the next trip writes before the other wave has read
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b32 v4, v7
  s_waitcnt lgkmcnt(0)
  v_add_u32 v5, v5, v4
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lloop
  global_store_dword v1, v5, s[6:7]
  s_endpgm
.Lend:
.size exchange, .Lend-exchange
.rodata
.p2align 6
.amdhsa_kernel exchange
  .amdhsa_group_segment_fixed_size 512
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: exchange
    .symbol: exchange.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 512
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 8
    .max_flat_workgroup_size: 128
    .args:
      - {.name: x, .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}
      - {.name: y, .size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global}
...
.end_amdgpu_metadata

"""AMD assembly into counts; the texts are written by hand, and counted by hand beside each line."""

from rooflens.plugins.isa.compiled import gcn
from rooflens.plugins.isa.compiled.code import COUNTS, count
from rooflens.plugins.isa.compiled.loops import main_loop

CDNA = """\
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
\t.text
\t.globl\tk                               ; -- Begin function k
k:                                      ; @k
.Lfunc_begin0:
; %bb.0:
\t.loc\t1 14 0 prologue_end             ; k.py:14:0
\ts_load_dwordx4 s[4:7], s[0:1], 0x0                    ; scalar
\tv_lshlrev_b32_e32 v1, 4, v0                           ; valu
\ts_waitcnt lgkmcnt(0)                                  ; sync
\tglobal_load_dwordx4 v[2:5], v1, s[4:5]                ; load_dwordx4
\tbuffer_load_ubyte v6, v1, s[8:11], 0 offen            ; load_byte
\tscratch_store_dword off, v6, off offset:4             ; scratch
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
\tbuffer_load_dwordx4 v[8:11], v1, s[8:11], 0 offen     ; loop: load_dwordx4
\tbuffer_load_dwordx2 v[12:13], v1, s[8:11], 0 offen lds ; loop: load_dwordx2
\ts_waitcnt vmcnt(0)                                    ; loop: sync
\tds_write_b128 v7, v[8:11]                             ; loop: lds_store
\ts_barrier                                             ; loop: sync
\tds_read_b64_tr_b8 v[14:15], v7                        ; loop: lds_load
\tds_bpermute_b32 v16, v7, v6                           ; loop: shuffle
\tv_cvt_pk_bf16_f32 v17, v16, v16                       ; loop: convert
\tv_perm_b32 v18, v16, v17, s3                          ; loop: valu
\tv_mfma_f32_32x32x64_f8f6f4 a[0:15], v[8:15], v[8:15], a[0:15] ; loop: matrix
\ts_nop 7                                               ; loop: other
\tv_accvgpr_read_b32 v19, a0                            ; loop: acc_move
\ts_add_i32 s2, s2, 1                                   ; loop: scalar
\ts_cmp_lt_i32 s2, s3                                   ; loop: scalar
\ts_cbranch_scc1 .LBB0_1                                ; loop: branch
; %bb.2:
\tbuffer_load_dword v20, off, s[0:3], 0 offset:8 ; 4-byte Folded Reload: scratch
\tbuffer_store_short v19, v1, s[8:11], 0 offen          ; store_short
\tbuffer_store_short_d16_hi v19, v1, s[8:11], 0 offen   ; store_short
\tglobal_store_dwordx4 v1, v[2:5], s[4:5]               ; store_dwordx4
\tglobal_atomic_add v2, v1, v3, s[4:5] sc0              ; atomic
\tbuffer_inv sc1                                        ; sync
\ts_endpgm                                              ; branch
\t.section\t.rodata,"a",@progbits
\t.amdhsa_next_free_vgpr 32
.Lfunc_end0:
\t.amdgpu_metadata
amdhsa.kernels:
  - .agpr_count:     16
    .name:           k
"""

LOOP = {
    "load_dwordx4": 1, "load_dwordx2": 1, "sync": 2, "lds_store": 1, "lds_load": 1, "shuffle": 1, "convert": 1,
    "valu": 1, "matrix": 1, "other": 1, "acc_move": 1, "scalar": 2, "branch": 1,
}  # fmt: skip
OUTSIDE = {
    "scalar": 1, "valu": 1, "sync": 2, "load_dwordx4": 1, "load_byte": 1, "scratch": 2, "store_short": 2,
    "store_dwordx4": 1, "atomic": 1, "branch": 1,
}  # fmt: skip


def told(counts):
    """Counts that are not 0, without their sum."""
    return {name: number for name, number in counts.items() if number and name != "instructions"}


def test_every_instruction_of_cdna_is_counted_once():
    found = count(gcn.parse(CDNA).instructions)
    assert told(found) == {name: LOOP.get(name, 0) + OUTSIDE.get(name, 0) for name in {**LOOP, **OUTSIDE}}
    assert found["instructions"] == 28
    assert set(found) == set(COUNTS)
    body = count(main_loop(gcn.parse(CDNA)))
    assert told(body) == LOOP
    assert body["instructions"] == 15


RDNA = """\
k:
\ts_load_b128 s[4:7], s[0:1], null              ; scalar
\tv_dual_mov_b32 v1, 0 :: v_dual_add_f32 v2, v3, v4 ; valu, one instruction
\ts_delay_alu instid0(VALU_DEP_1)               ; other
\ts_clause 0x1                                  ; other
\tbuffer_load_b128 v[4:7], v1, s[4:7], null offen ; load_dwordx4
\tglobal_load_b96 v[8:10], v1, s[4:5]           ; load_dwordx2
\tbuffer_load_d16_hi_u8 v11, v1, s[4:7], null offen ; load_byte
\tglobal_load_d16_b16 v12, v1, s[4:5]           ; load_short
\ts_wait_loadcnt_dscnt 0x0                      ; sync
\tds_load_b128 v[4:7], v1                       ; lds_load
\tds_store_2addr_b64 v1, v[4:5], v[6:7]         ; lds_store
\ts_barrier_signal -1                           ; sync
\ts_barrier_wait -1                             ; sync
\tglobal_inv scope:SCOPE_SE                     ; sync
\tbuffer_gl0_inv                                ; sync
\tv_wmma_f32_16x16x16_bf16 v[0:7], v[8:15], v[16:23], v[0:7] ; matrix
\tv_cvt_f32_f16_e32 v1, v2                      ; convert
\tbuffer_store_b16 v1, v2, s[4:7], null offen   ; store_short
\tbuffer_store_d16_hi_b8 v1, v2, s[4:7], null offen ; store_byte
\tglobal_store_b64 v1, v[2:3], s[4:5]           ; store_dwordx2
\tglobal_store_b32 v1, v2, s[4:5]               ; store_dword
\ts_endpgm                                      ; branch
"""


def test_rdna_counts_bits_where_cdna_counts_dwords():
    code = gcn.parse(RDNA)
    assert told(count(code.instructions)) == {
        "scalar": 1, "valu": 1, "other": 2, "load_dwordx4": 1, "load_dwordx2": 1, "load_byte": 1, "load_short": 1,
        "sync": 5, "lds_load": 1, "lds_store": 1, "matrix": 1, "convert": 1, "store_short": 1, "store_byte": 1,
        "store_dwordx2": 1, "store_dword": 1, "branch": 1,
    }  # fmt: skip
    assert main_loop(code) == []


def test_comments_and_debug_lines_do_not_change_the_hash_but_operands_do():
    assert gcn.parse(CDNA.replace("\t.loc\t1 14 0", "\t.loc\t2 99 0").replace("; valu", "")).digest == (
        gcn.parse(CDNA).digest
    )
    assert gcn.parse(CDNA.replace("v_lshlrev_b32_e32 v1, 4", "v_lshlrev_b32_e32 v1, 5")).digest != (
        gcn.parse(CDNA).digest
    )

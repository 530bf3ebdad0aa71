"""NVIDIA machine code into counts; the text is written by hand, and counted by hand beside each line."""

import pytest
from rooflens.plugins.isa.compiled import gcn, sass
from rooflens.plugins.isa.compiled.code import OpKind, count
from rooflens.plugins.isa.compiled.loops import loops, main_loop

from .test_gcn import told

SASS = """\
\t.target\tsm_90a
.text.k:
        /*0000*/                   LDC R1, c[0x0][0x28] ;               // scalar
        /*0010*/                   S2R R0, SR_TID.X ;                   // other
        /*0020*/                   ULDC.64 UR4, c[0x0][0x208] ;         // scalar
        /*0030*/                   IMAD.WIDE R2, R0, 0x10, R2 ;         // valu
        /*0040*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ; // load_dwordx4
        /*0050*/                   LDG.E.U8 R9, desc[UR4][R2.64+0x10] ; // load_byte
.L_x_1:
        /*0060*/                   LDGSTS.E.BYPASS.LTC128B.128 [R5], desc[UR4][R2.64] ; // loop: load_dwordx4
        /*0070*/                   LDGDEPBAR ;                          // loop: sync
        /*0080*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;        // loop: sync
        /*0090*/                   LDSM.16.M88.4 R8, [R5] ;             // loop: lds_load
        /*00a0*/                   HADD2.F32 R12, -RZ, R8.H0_H0 ;       // loop: convert (fp16 to fp32)
        /*00b0*/                   HADD2 R13, R8, R9 ;                  // loop: valu
        /*00c0*/                   F2FP.BF16.F32.PACK_AB R14, R12, R13 ; // loop: convert
        /*00d0*/                   STS.64 [R5], R14 ;                   // loop: lds_store
        /*00e0*/                   HGMMA.64x16x16.F32.BF16 R24, R8, gdesc[UR8], R24 ; // loop: matrix
        /*00f0*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;      // loop: sync
        /*0100*/                   UIADD3 UR5, UR5, 0x1, URZ ;          // loop: scalar
        /*0110*/                   ISETP.GE.AND P1, PT, R3, UR5, PT ;   // loop: valu
        /*0120*/              @!P1 BRA `(.L_x_1) ;                      // loop: branch
        /*0130*/                   SHFL.BFLY PT, R5, R4, 0x1, 0x1f ;    // shuffle
        /*0140*/                   STL [R1+0x4], R5 ;                   // scratch
        /*0150*/                   LDL R5, [R1+0x4] ;                   // scratch
        /*0160*/                   STG.E.U16 desc[UR4][R2.64], R5 ;     // store_short
        /*0170*/                   STG.E desc[UR4][R2.64], R5 ;         // store_dword
        /*0180*/                   STG.E.64 desc[UR4][R2.64], R4 ;      // store_dwordx2
        /*0190*/                   STG.E.128 desc[UR4][R2.64], R4 ;     // store_dwordx4
        /*01a0*/                   UTMASTG.2D [UR6], [UR8] ;            // store_bulk
        /*01b0*/                   ATOMG.E.ADD.STRONG.GPU PT, R4, desc[UR4][R2.64], R5 ; // atomic
        /*01c0*/               @P0 EXIT ;                               // branch
        /*01d0*/                   MEMBAR.ALL.GPU ;                     // sync
        /*01e0*/                   EXIT ;                               // branch
.L_x_2:
        /*01f0*/                   BRA `(.L_x_2);
        /*0200*/                   NOP;
        /*0210*/                   NOP;
.L_x_3:
"""

LOOP = {
    "load_dwordx4": 1, "sync": 3, "lds_load": 1, "convert": 2, "valu": 2, "lds_store": 1, "matrix": 1, "scalar": 1,
    "branch": 1,
}  # fmt: skip
OUTSIDE = {
    "scalar": 2, "other": 1, "valu": 1, "load_dwordx4": 1, "load_byte": 1, "shuffle": 1, "scratch": 2,
    "store_short": 1, "store_dword": 1, "store_dwordx2": 1, "store_dwordx4": 1, "store_bulk": 1, "atomic": 1,
    "branch": 2, "sync": 1,
}  # fmt: skip


def test_every_instruction_is_counted_once_and_the_padding_never():
    found = count(sass.parse(SASS).instructions)
    assert told(found) == {name: LOOP.get(name, 0) + OUTSIDE.get(name, 0) for name in {**LOOP, **OUTSIDE}}
    assert found["instructions"] == 31
    assert told(count(main_loop(sass.parse(SASS)))) == LOOP


@pytest.mark.parametrize(
    ("machine", "opcodes", "kind", "moved"),
    [
        (
            gcn,
            "v_smfmac_f32_16x16x64_bf8_bf8 v_swmmac_f32_16x16x32_f16 v_mfma_scale_f32_32x32x64_f8f6f4",
            OpKind.MATRIX,
            0,
        ),
        (gcn, "v_cvt_scalef32_pk_f32_fp8", OpKind.CONVERT, 0),
        (gcn, "v_accvgpr_write_b32", OpKind.ACC_MOVE, 0),
        (gcn, "v_readfirstlane_b32", OpKind.VALU, 0),
        (gcn, "s_cbranch_execz", OpKind.BRANCH, 0),
        (gcn, "s_waitcnt_vscnt buffer_wbl2", OpKind.SYNC, 0),
        (gcn, "ds_add_rtn_u32", OpKind.ATOMIC, 0),
        (gcn, "ds_swizzle_b32", OpKind.SHUFFLE, 0),
        (gcn, "flat_load_dwordx3", OpKind.LOAD, 12),
        (gcn, "global_load_sbyte_d16_hi", OpKind.LOAD, 1),
        (gcn, "global_load_tr_b128 global_load_lds_dwordx4", OpKind.LOAD, 16),
        (gcn, "buffer_load_sshort", OpKind.LOAD, 2),
        (gcn, "buffer_store_dword", OpKind.STORE, 4),
        (sass, "HMMA.16816.F32.BF16 QGMMA.64x128x32.F32.E4M3.E4M3 UTCQMMA", OpKind.MATRIX, 0),
        (sass, "UTCBAR", OpKind.SYNC, 0),
        (sass, "LDTM.16dp32bit_t0_t15.x32", OpKind.ACC_MOVE, 0),
        (sass, "I2FP.F32.S32 F2F.F16.F32", OpKind.CONVERT, 0),
        (sass, "FADD2 PRMT", OpKind.VALU, 0),
        (sass, "UPRMT", OpKind.SCALAR, 0),
        (sass, "UTMALDG.2D", OpKind.LOAD, 0),
        (sass, "LDG.E.ENL2.256", OpKind.LOAD, 32),
        (sass, "LDG.E.STRONG.GPU", OpKind.LOAD, 4),
        (sass, "LDG.E.S16", OpKind.LOAD, 2),
        (sass, "STG.E.U8", OpKind.STORE, 1),
    ],
)
def test_classes_and_widths(machine, opcodes, kind, moved):
    for opcode in opcodes.split():
        assert machine.classify(opcode) is kind
        if kind in (OpKind.LOAD, OpKind.STORE):
            assert machine.bytes_of(opcode) == moved, opcode


def test_a_wait_behind_the_end_is_part_of_the_loop_that_jumps_there_and_makes_no_loop_of_what_it_returns_to():
    text = """
.L_x_0:
        /*0000*/                   LDG.E R4, desc[UR4][R2.64] ;
        /*0010*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR5], R3 ;
        /*0020*/              @!P1 BRA `(.L_x_9) ;
.L_x_1:
        /*0030*/                   HMMA.16816.F32 R24, R8, R4, R24 ;
        /*0040*/                   BRA.U !UP0, `(.L_x_0) ;
        /*0050*/                   STG.E desc[UR4][R2.64], R5 ;
        /*0060*/                   EXIT ;
.L_x_9:
        /*0070*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR5], R3 ;
        /*0080*/              @!P1 BRA `(.L_x_9) ;
        /*0090*/                   BRA `(.L_x_1) ;
"""
    code = sass.parse(text)
    assert loops(code) == [frozenset({0, 1, 2, 3, 4, 7, 8, 9}), frozenset({7, 8})]
    assert told(count(main_loop(code))) == {"load_dword": 1, "matrix": 1, "sync": 2, "branch": 4}


def test_matrix_instructions_of_ptx_say_types_and_shape():
    ptx = """
\twgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%f1}, {%r1}, %rd1, 1, 1, 1, 0;
\twgmma.commit_group.sync.aligned;
\t@%p1 tcgen05.mma.cta_group::1.kind::f8f6f4 [%r1], %rd1, %rd2, %r3, %p2;
\tmma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};
\t// mma.sync.aligned.m16n8k8 in a comment
\ttcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%r4];
"""
    assert sass.ptx_matrix_instructions(ptx) == [
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16",
        "tcgen05.mma.cta_group::1.kind::f8f6f4",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    ]

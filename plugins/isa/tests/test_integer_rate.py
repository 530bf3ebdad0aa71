"""Which instructions wait for the unit of shifts and logic; the text and its counts are made by hand."""

import pytest
from rooflens.plugins.isa.compiled import gcn, sass
from rooflens.plugins.isa.compiled.account import decoding
from rooflens.plugins.isa.compiled.integer_rate import integer_instructions

SASS = """
        /*0000*/                   LOP3.LUT R6, R2, 0xf, RZ, 0xc0, !PT ;       // integer, but not of the loop
.L_x_0:
        /*0010*/                   LDG.E R3, desc[UR4][R4.64+0x80] ;           // no vector instruction
        /*0020*/                   SHF.R.U32.HI R7, RZ, 0x4, R3 ;              // integer: shift
        /*0030*/                   LOP3.LUT R6, R3, 0xf0f0f0f, RZ, 0xc0, !PT ; // integer: logic
        /*0040*/                   PRMT R8, R20, R6, R21 ;                     // integer: permute
        /*0050*/              @P2 PRMT R9, R22, R6, R23 ;                     // integer: permute
        /*0060*/                   HADD2.F32 R10, -RZ, R8.H0_H0 ;              // conversion
        /*0070*/                   I2FP.F32.S32 R11, R9 ;                      // conversion
        /*0080*/                   F2FP.BF16.F32.PACK_AB R12, R10, R11 ;       // conversion
        /*0090*/                   FFMA R13, R10, R14, R13 ;                   // fp32
        /*00a0*/                   FMUL R15, R13, R16 ;                        // fp32
        /*00b0*/                   IMAD.MOV.U32 R17, RZ, RZ, R15 ;             // multiplies
        /*00c0*/                   IMAD.WIDE R4, R18, 0x10, R4 ;               // multiplies
        /*00d0*/                   MOV R19, R17 ;                              // either unit
        /*00e0*/                   VIADD R18, R18, 0x1 ;                       // integer: addition
        /*00f0*/                   IADD3.X R5, R5, RZ, RZ, P0, !PT ;           // integer: addition
        /*0100*/                   LEA.HI.X.SX32 R24, R18, R5, 0x1, P0 ;       // integer: addition
        /*0110*/                   FMNMX R25, R13, R15, !PT ;                  // integer: maximum
        /*0120*/                   SEL R26, R25, RZ, P1 ;                      // integer: select
        /*0130*/                   ISETP.GE.U32.AND P0, PT, R18, R27, PT ;     // integer: comparison
        /*0140*/                   PLOP3.LUT P0, PT, P0, P1, PT, 0x8, 0x0 ;    // of predicates
        /*0150*/                   ULOP3.LUT UR5, UR5, 0x1, URZ, 0xc0, !UPT ;  // once per warp
        /*0160*/              @!P0 BRA `(.L_x_0) ;
        /*0170*/                   EXIT ;
"""
INTEGER, SHIFTS_AND_LOGIC = 10, 2
VECTOR = 10 + 3 + 2 + 2 + 1 + 1
"""Integer, conversions, fp32, multiplying, moving, of predicates."""


@pytest.mark.parametrize(
    "arch, integer",
    [("sm80", INTEGER), ("sm89", INTEGER), ("sm90", INTEGER), ("sm100", SHIFTS_AND_LOGIC), ("sm120", SHIFTS_AND_LOGIC)],
)
def test_integer_instructions_of_the_main_loop(arch, integer):
    code = sass.parse(SASS)
    assert integer_instructions(code.instructions, arch) == integer + 1  # and the one before the loop
    # 4 warps of 32 lanes decode 256 weights: half an instruction of all lanes per weight for each one of the code
    assert decoding(code, arch, 4, 256) == (VECTOR / 2, integer / 2)


GCN = """
k:
.LBB0_1:
\tglobal_load_dword v1, v0, s[0:1]
\tv_lshrrev_b32_e32 v2, 4, v1
\tv_and_b32_e32 v3, 15, v1
\tv_perm_b32 v4, v5, v6, v3
\tv_fmac_f32_e32 v7, v4, v2
\ts_cbranch_scc1 .LBB0_1
\ts_endpgm
"""


def test_amd_tells_none_apart():
    code = gcn.parse(GCN)
    assert integer_instructions(code.instructions, "gfx942") is None
    assert decoding(code, "gfx942", 4, 256) == (4.0, None)  # 4 instructions of 4 waves of 64

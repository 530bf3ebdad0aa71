"""The main loop among several: nested, with and without matrix instructions, and none at all."""

import pytest
from rooflens.plugins.isa.compiled import gcn
from rooflens.plugins.isa.compiled.code import Disassembly
from rooflens.plugins.isa.compiled.loops import loops, main_loop, with_loop

LOAD, WIDE = "\tbuffer_load_dword v1, v0, s[0:3], 0 offen", "\tbuffer_load_dwordx4 v[1:4], v0, s[0:3], 0 offen"
MATRIX, WORK = "\tv_mfma_f32_32x32x8_f16 v[0:15], v[0:1], v[2:3], v[0:15]", "\tv_add_f32_e32 v1, v1, v1"
END = "\ts_endpgm"


def back(label):
    return f"\ts_cbranch_scc1 {label}"


def parse(*lines):
    return gcn.parse("\n".join(lines))


def test_of_nested_loops_the_inner_one_works():
    code = parse(".LBB0_1:", WIDE, WORK, ".LBB0_2:", LOAD, MATRIX, back(".LBB0_2"), WORK, back(".LBB0_1"), END)
    assert loops(code) == [frozenset(range(7)), frozenset({2, 3, 4})]
    assert [one.opcode for one in main_loop(code)] == [
        "buffer_load_dword",
        "v_mfma_f32_32x32x8_f16",
        "s_cbranch_scc1",
    ]


def test_a_loop_that_only_waits_does_not_hide_the_one_around_it():
    code = parse(".LBB0_1:", LOAD, ".LBB0_2:", "\ts_sleep 1", back(".LBB0_2"), MATRIX, back(".LBB0_1"), END)
    assert len(main_loop(code)) == 5


def test_matrix_instructions_win_over_loads_and_more_of_them_over_fewer():
    narrow = (".LBB0_1:", WIDE, WIDE, WIDE, back(".LBB0_1"))
    one = (".LBB0_2:", LOAD, MATRIX, back(".LBB0_2"))
    two = (".LBB0_3:", MATRIX, MATRIX, back(".LBB0_3"))
    assert len(main_loop(parse(*narrow, *one, END))) == 3
    assert main_loop(parse(*narrow, *one, *two, END))[0].opcode.startswith("v_mfma")


def test_a_workgroup_runs_one_of_two_loops_and_what_is_before_and_behind_both():
    """The waits of the second loop are behind the end of the kernel."""
    code = parse(
        "\ts_sleep 1", "\ts_cbranch_scc0 .LBB0_2", ".LBB0_1:", WIDE, back(".LBB0_1"), "\ts_branch .LBB0_3",
        ".LBB0_2:", LOAD, back(".LBB0_4"), WORK, back(".LBB0_2"), ".LBB0_3:", "\ts_nop 0", END,
        ".LBB0_4:", "\ts_sleep 2", "\ts_branch .LBB0_2",
    )  # fmt: skip
    first, second = (with_loop(code, main_loop(code, number)) for number in (0, 1))
    assert [code.instructions.index(one) for one in first] == [0, 1, 2, 3, 4, 9, 10]
    assert [code.instructions.index(one) for one in second] == [0, 1, 5, 6, 7, 8, 9, 10, 11, 12]
    assert main_loop(code, 2) == []


def test_without_matrix_instructions_bytes_count_not_the_number_of_loads():
    code = parse(".LBB0_1:", LOAD, LOAD, LOAD, back(".LBB0_1"), ".LBB0_2:", WIDE, back(".LBB0_2"), END)
    assert [one.opcode for one in main_loop(code)] == ["buffer_load_dwordx4", "s_cbranch_scc1"]


def test_parts_of_a_loop_behind_a_forward_jump_belong_to_it():
    code = parse(
        ".LBB0_1:", LOAD, "\ts_cbranch_vccz .LBB0_3", WORK, ".LBB0_2:", MATRIX, back(".LBB0_1"), END,
        ".LBB0_3:", WORK, WORK, "\ts_branch .LBB0_2",
    )  # fmt: skip
    assert loops(code) == [frozenset({0, 1, 2, 3, 4, 6, 7, 8})]


def test_two_jumps_back_to_one_label_are_one_loop():
    code = parse(".LBB0_1:", LOAD, "\ts_cbranch_vccz .LBB0_1", WORK, back(".LBB0_1"), END)
    assert loops(code) == [frozenset(range(4))]


@pytest.mark.parametrize("code", [Disassembly([], {}), parse(WORK, END), parse(".LBB0_1:", WORK, back(".LBB0_1"), END)])
def test_nothing_that_loads_or_multiplies_is_no_main_loop(code):
    assert main_loop(code) == []

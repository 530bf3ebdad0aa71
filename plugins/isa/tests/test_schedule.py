"""Schedules of a workgroup against clocks counted by hand, from the costs of the instructions; and of real binaries."""

import json

import pytest
from rooflens.plugins.isa.compiled import sass
from rooflens.plugins.isa.compiled.schedule import LATENCIES, Schedule, from_lists, schedule


def code(*lines):
    """SASS of `lines`; "name:" is a label."""
    text = [
        f".L_{line}" if line.endswith(":") else f"        /*{16 * at:04x}*/  {line} ;" for at, line in enumerate(lines)
    ]
    return sass.parse("\n".join(text))


def loop(*body, before=()):
    return code(*before, "x_0:", *body, "@P0 BRA `(.L_x_0)", "EXIT")


LOAD = "LDG.E R2, desc[UR4][R4.64]"


def iteration(*body, warps=4):
    """Work of an iteration; nothing waits for the copy that makes it the main loop."""
    return schedule(loop("LDGSTS.E [R25], desc[UR4][R8.64]", *body), "sm90", warps).iteration


def test_results_are_waited_for():
    chain = schedule(code(*["FFMA R1, R1, R2, R3"] * 10, "EXIT"), "sm90", 4)
    assert chain.iteration is None
    assert chain.setup.clocks == pytest.approx(10 * 4.3)
    apart = schedule(code(*[f"FFMA R{10 + i}, R1, R2, R3" for i in range(10)], "EXIT"), "sm90", 4)
    assert apart.setup.clocks == pytest.approx(9 + 4.3)


@pytest.mark.parametrize(
    ("line", "pipe", "clocks"),
    [
        ("FFMA R{0}, R1, R2, R3", "fp32", 1),
        ("LOP3.LUT R{0}, R1, 0xf, RZ, 0xc0, !PT", "integer", 2),
        ("HADD2.F32 R{0}, -RZ, R1.H0_H0", "fp16", 2),
        ("F2F.BF16.F16 R{0}, R1", "conversion", 8),
        ("LDS R{0}, [R1]", "load/store", 4),  # one of four schedulers that share it
        ("LDS.128 R{0}, [R1]", "load/store", 16),
        ("HMMA.16816.F32 R{0}, R1, R2, R3", "matrix", 8),
    ],
)
def test_a_pipe_takes_an_instruction_of_a_warp_in_so_many_clocks(line, pipe, clocks):
    body = [line.format(20 + 4 * number) for number in range(16)]
    alone, two = iteration(*body), iteration(*body, warps=8)  # one and two warps per scheduler
    loads = 4 * (pipe == "load/store")
    assert alone.pipes[pipe] == 16 * clocks + loads
    assert two.pipes[pipe] == 2 * (16 * clocks + loads)
    assert two.pipes["issue"] == 2 * 18
    assert alone.clocks == pytest.approx(max(16 * clocks, 18), abs=clocks + 4)
    assert two.clocks == pytest.approx(max(32 * clocks, 36), abs=clocks + 8)


@pytest.mark.parametrize("warps", [1, 2, 3])
@pytest.mark.parametrize(
    "line", ["LOP3.LUT R{0}, R1, 0xf, RZ, 0xc0, !PT", "LDS.128 R{0}, [R1]", "HMMA.16816.F32 R{0}, R1, R2, R3"]
)
def test_fewer_warps_than_schedulers_occupy_their_share_of_the_pipes(line, warps):
    """As many workgroups as make four warps fill the unit like one of four warps."""
    body = [line.format(20 + 4 * number) for number in range(16)]
    few, four = iteration(*body, warps=warps), iteration(*body, warps=4)
    assert few.pipes == pytest.approx({name: clocks * warps / 4 for name, clocks in four.pipes.items()})


def test_an_answer_of_memory_is_waited_for_once_however_many_loads_there_are():
    loads = [f"LDG.E R{number}, desc[UR4][R4.64]" for number in (20, 21, 22)]
    use = "FADD R30, R20, R22"
    assert schedule(code(*loads, use, "EXIT"), "sm90", 4).setup.waits == pytest.approx(1)
    chase = ["LDG.E R4, desc[UR4][R4.64]"] * 3
    assert schedule(code(*chase, "EXIT"), "sm90", 4).setup.waits == pytest.approx(3)


@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_copies_that_are_ahead_share_a_wait(ahead):
    """A loop whose copies are asked for n iterations before they are used waits for 1/n of an answer in each."""
    found = iteration("LDGDEPBAR", f"DEPBAR.LE SB0, {hex(ahead - 1)}")
    assert found.waits == pytest.approx(1 / ahead, rel=0.1)


def test_products_of_a_warpgroup_are_waited_for_by_name():
    """64 x 128 products of 16 bf16 take 64 clocks on all four tensor cores, whatever the number of warps."""
    issue = "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR32], R24"
    found = iteration(issue, issue, "WARPGROUP.DEPBAR.LE gsb0, 0x0")
    assert found.pipes["matrix"] == 128
    assert found.clocks == pytest.approx(128 + 30, abs=8)
    assert iteration(issue, issue, warps=8).pipes["matrix"] == 128


def test_warps_meet_at_a_barrier():
    slow = iteration("F2F.BF16.F16 R9, R9", "BAR.SYNC 0x0", warps=4)
    assert slow.clocks == pytest.approx(14, abs=6)


def test_iterations_add_up():
    found = schedule(loop("LDGSTS.E [R25], desc[UR4][R8.64]", before=[LOAD, "FADD R9, R2, R2"]), "sm90", 4)
    whole = found.of_launch(100)
    assert whole.waits == pytest.approx(found.setup.waits) == pytest.approx(1)
    assert whole.clocks == pytest.approx(found.setup.clocks + 100 * found.iteration.clocks)
    assert whole.pipes["issue"] == 3 + 100 * 2
    assert found.of_launch(None) is None
    assert from_lists(json.loads(json.dumps(found))) == found
    assert from_lists(None) is None


def test_only_where_the_costs_of_instructions_are_known():
    assert schedule(code(LOAD, "EXIT"), "sm120", 4) is None
    assert schedule(code("EXIT"), "sm90", 4) == Schedule(found := schedule(code("EXIT"), "sm90", 4).setup, None)
    assert found.waits == 0
    assert LATENCIES == (290, 665)

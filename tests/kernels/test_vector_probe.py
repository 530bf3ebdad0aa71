"""The chains of vector instructions: what they compute, and that compilers leave as many of them as are counted."""

from collections import Counter

import numpy as np
import pytest
import torch
from rooflens.kernels.aot import KNOWN_ARCHES, BuildRequest, kernel_path
from rooflens.kernels.probes.triton import vector
from rooflens.plugins.isa.compiled import gcn, sass
from rooflens.plugins.isa.compiled.loops import loops
from rooflens.shapes.gpu_architectures import architecture

from .ahead_of_time import check_build, mostly_slow
from .interpreter import interpreted

INSTRUCTIONS = {
    "fma": ({"FFMA"}, {"v_fma_f32"}),
    "integer": ({"SHF.R.S32.HI", "LOP3.LUT"}, {"v_ashrrev_i32_e32", "v_xor_b32_e32"}),
}
"""What each step becomes: on NVIDIA, on AMD; neither packed nor fused with the next."""


def request(arch, pattern):
    return BuildRequest(
        kernel_path(vector.KERNELS[pattern]),
        {"out": "*fp32" if pattern == "fma" else "*i32", **vector.operands(pattern, vector.ROUNDS)},
        vector.constants(pattern, architecture(arch).is_amd),
        vector.OPTIONS,
    )


@pytest.mark.parametrize("pattern", vector.KERNELS)
@pytest.mark.parametrize("arch", mostly_slow("sm90 gfx942 gfx1100", KNOWN_ARCHES))
def test_an_iteration_has_the_instructions_that_are_counted(builder, arch, pattern):
    build = builder.build(arch, request(arch, pattern))
    check_build(build, arch)
    code = gcn.parse(build.assembly) if architecture(arch).is_amd else sass.parse(build.machine_code)
    body = max(loops(code), key=len)
    counts = Counter(code.instructions[index].opcode for index in body)
    lanes = build.warps * architecture(arch).wave_size
    wanted = INSTRUCTIONS[pattern][architecture(arch).is_amd]
    expected = vector.INSTRUCTIONS[pattern] * vector.STEPS * vector.BLOCK // lanes
    assert sum(counts[name] for name in wanted) == expected
    assert len({counts[name] for name in wanted}) == 1
    others = sum(counts.values()) - expected
    assert others <= 16  # the loop itself, and AMD's s_nop


@interpreted
def test_the_chains_compute_what_they_say():
    steps, rounds, width = 3, 2, 16
    fma, integer = torch.empty(1, width), torch.empty(1, width, dtype=torch.int32)
    for pattern, out, constants in (("fma", fma, {"ASM": ""}), ("integer", integer, {})):
        given = vector.operands(pattern, rounds)
        vector.KERNELS[pattern][(1,)](out, **given, BLOCK=width, STEPS=steps, **constants)
    values, factor, addend = np.arange(width, dtype=np.float32), np.float32(0.999), np.float32(1.5)
    words = np.arange(width, dtype=np.int32)
    for _ in range(steps * rounds):
        values = (values.astype(np.float64) * factor + addend).astype(np.float32)
        words = (words >> 3) ^ np.int32(0x5BD1E995)
    np.testing.assert_allclose(fma[0].numpy(), values, rtol=1e-6)
    assert integer[0].tolist() == words.tolist()


@pytest.mark.gpu
def test_rates_of_a_gpu_are_near_what_its_table_says():
    from rooflens.harness.ceilings.probe import SPEC_TOLERANCE, calibrate
    from rooflens.harness.machine.device import find_device
    from rooflens.harness.timing.accelerator import accelerator

    device = find_device("cuda")
    if device.spec is None:
        pytest.skip(f"the device table does not have {device.name}")
    rows, remarks = calibrate(device, accelerator(device), (), "event")
    assert not [remark for remark in remarks.values() if "vector" in remark]
    rates = {(row["pattern"], row["kind"]): row["value"] for row in rows if row["ceiling"] == "vector"}
    assert 0.85 <= rates["fma", "measured"] / rates["fma", "derived"] <= SPEC_TOLERANCE
    assert 0.4 <= rates["integer", "measured"] / rates["fma", "derived"] <= SPEC_TOLERANCE

"""The inline assembly that decodes e4m3 words, executed here instruction by instruction."""

import numpy as np
from rooflens.kernels.mxfp8.triton.parts import PLANES_ASM

from ..checks import e4m3
from ..emulate_isa import Ptx, bf16x2

VALUES = np.array([e4m3(byte) for byte in range(256)])
FINITE = [byte for byte in range(256) if byte & 0x7F != 0x7F]


def test_every_byte_in_every_place_becomes_its_value_times_the_scale():
    draw = np.random.default_rng(7)
    for scale in (3, 60, 119, 127, 134):
        octets = np.array([draw.permutation(FINITE) for _ in range(8)], np.uint8).T  # each byte once in every place
        first, second = np.ascontiguousarray(octets).view("<u4").T
        lanes, half = Ptx(first), np.uint32(scale + 120 << 7)
        lanes.registers |= {"$4": first, "$5": second, "$6": first * 0 + (half | half << 16), "$7": first * 0}
        for line in PLANES_ASM.value.strip(" {}\n").split(";"):
            if line.strip() and not line.strip().startswith(".reg"):
                lanes.step(*line.strip().split(maxsplit=1))
        values = VALUES[octets] * 2.0 ** (scale - 127)
        for j in range(4):
            found, expected = np.stack(bf16x2(lanes.registers[f"${j}"]), axis=1), values[:, [j, 4 + j]]
            assert (found == expected).all()
            assert (np.signbit(found) == (octets[:, [j, 4 + j]] >= 0x80)).all()

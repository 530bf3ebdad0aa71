"""The inline assembly that decodes e4m3 words, executed here instruction by instruction."""

import struct

import numpy as np
from rooflens.kernels.mxfp8.triton.parts import PLANES_ASM

from ..checks import e4m3
from ..emulate_isa import PTX

MASK = 0xFFFFFFFF


def prmt(*words):
    return int(PTX["prmt.b32"](*np.array(words, np.uint32)[:, None])[0])


def lop3(a, b, c, table):
    """PTX: bit i of the result is bit (a_i b_i c_i) of the table."""
    return sum(((table >> (((a >> i) & 1) << 2 | ((b >> i) & 1) << 1 | ((c >> i) & 1))) & 1) << i for i in range(32))


def bf16(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def fma_bf16x2(a, b, c):
    halves = []
    for shift in (0, 16):
        x, y, z = (bf16(word >> shift & 0xFFFF) for word in (a, b, c))
        exact = float(np.float64(x) * np.float64(y) + np.float64(z))
        (bits,) = struct.unpack("<I", struct.pack("<f", exact))
        assert bits & 0xFFFF == 0, "no rounding is needed"
        halves.append(bits >> 16)
    return halves[0] | halves[1] << 16


def execute(text, registers):
    """Run straight-line PTX on a dict of registers; `$4` and the like are registers too."""
    for line in text.strip(" {}\n").split(";"):
        if not line.strip() or line.strip().startswith(".reg"):
            continue
        name, operands = line.strip().split(maxsplit=1)
        target, *sources = (part.strip() for part in operands.split(","))
        values = [
            int(one, 16) if one.startswith("0x") else int(one) if one.isdigit() else registers[one] for one in sources
        ]
        operation = {
            "prmt.b32": prmt, "lop3.b32": lop3, "fma.rn.bf16x2": fma_bf16x2, "mov.b32": lambda a: a,
            "shr.u32": lambda a, n: a >> n, "and.b32": lambda a, b: a & b,
        }[name]  # fmt: skip
        registers[target] = operation(*values) & MASK
    return registers


def test_every_byte_in_every_place_becomes_its_value_times_the_scale():
    finite = [byte for byte in range(256) if byte & 0x7F != 0x7F]
    draw = np.random.default_rng(7)
    for scale in (3, 60, 119, 127, 134):
        half = scale + 120 << 7
        for byte in finite:
            neighbours = draw.choice(finite, 7)
            place = int(draw.integers(8))
            octets = [int(one) for one in neighbours]
            octets.insert(place, byte)
            first, second = (int.from_bytes(bytes(octets[i : i + 4]), "little") for i in (0, 4))
            out = execute(PLANES_ASM.value, {"$4": first, "$5": second, "$6": half | half << 16, "$7": 0})
            for j in range(4):
                pair = [bf16(out[f"${j}"] & 0xFFFF), bf16(out[f"${j}"] >> 16)]
                expected = [e4m3(octets[j]), e4m3(octets[4 + j])]
                assert pair == [value * 2.0 ** (scale - 127) for value in expected]
                assert np.signbit(pair).tolist() == [bool(octets[j] & 0x80), bool(octets[4 + j] & 0x80)]

"""Execute the straight-line PTX or AMD GCN of a small kernel in numpy, one lane per input word.

Semantics are those of the vendors' manuals (PTX ISA: prmt, shr, lop3; AMD ISA: V_PERM_B32, V_AND_OR_B32, SDWA). Only
what the decode probe compiles to and inline assembly has is known; anything else raises ValueError with the line.
Addresses are not followed: the kernel's one load delivers the words, its stores are collected by their constant offset.
"""

import re

import numpy as np

U32 = np.uint32


def _bytes(value):
    return np.ascontiguousarray(value, dtype="<u4").view(np.uint8).reshape(*value.shape, 4)


def _permute(a, b, selectors, signs):
    """Byte i of the result is byte selectors[..., i] of (a, b), or its top bit replicated where `signs` is set."""
    source = np.concatenate([_bytes(a), _bytes(b)], axis=-1)
    chosen = np.take_along_axis(source, selectors.astype(np.int64), axis=-1)
    replicated = np.where(chosen & 0x80, 255, 0).astype(np.uint8)
    return np.ascontiguousarray(np.where(signs, replicated, chosen)).view("<u4").reshape(a.shape)


def _half(value):
    """fp32 pattern of the fp16 in the low 16 bits."""
    return (value & U32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float32).view(U32)


def _prmt(a, b, selector):
    """PTX ISA, default mode: a nibble selects a byte of {b, a}; its top bit replicates that byte's sign."""
    nibbles = np.stack([(selector >> U32(4 * i)) & U32(15) for i in range(4)], axis=-1)
    return _permute(a, b, nibbles & U32(7), (nibbles & U32(8)) != 0)


def _v_perm(a, b, selector):
    """AMD ISA, S1 = a, S0 = b; constants and signs are not used here."""
    selectors = _bytes(selector)
    assert (selectors < 8).all(), "selects a constant or a sign"
    return _permute(b, a, selectors, np.zeros(selectors.shape, dtype=bool))


def _lop3(a, b, c, table):
    """PTX ISA: bit i of the result is bit (a_i b_i c_i) of the table."""
    result = np.zeros_like(a)
    for number in range(8):
        if table.flat[0] >> U32(number) & 1:
            result |= (a if number & 4 else ~a) & (b if number & 2 else ~b) & (c if number & 1 else ~c)
    return result


def bf16x2(word):
    """Values of the lower and the upper half."""
    return (word << U32(16)).view(np.float32), (word & U32(0xFFFF0000)).view(np.float32)


def _fma_bf16x2(*words):
    exact = [(x.astype(np.float64) * y + z).astype(np.float32) for x, y, z in zip(*map(bf16x2, words), strict=True)]
    low, high = (np.ascontiguousarray(half).view(U32) for half in exact)
    assert not ((low | high) & LOW).any(), "no rounding is needed"
    return low >> U32(16) | high


SHIFT, LOW = U32(31), U32(0xFFFF)
PTX = {
    "mov": lambda a: a,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add.s32": np.add,
    "add.u32": np.add,
    "shl.b32": lambda a, n: np.where(n > 31, U32(0), a << (n & SHIFT)),
    "shr.u32": lambda a, n: np.where(n > 31, U32(0), a >> (n & SHIFT)),
    "shr.b32": lambda a, n: np.where(n > 31, U32(0), a >> (n & SHIFT)),
    "shr.s32": lambda a, n: (a.view(np.int32) >> n.astype(np.int32)).view(U32),
    "prmt.b32": _prmt,
    "lop3.b32": _lop3,
    "fma.rn.bf16x2": _fma_bf16x2,
    "cvt.u16.u32": lambda a: a & LOW,
    "cvt.f32.f16": _half,
}
GCN = {
    "v_mov_b32": lambda a: a,
    "s_mov_b32": lambda a: a,
    "v_and_b32": np.bitwise_and,
    "v_or_b32": np.bitwise_or,
    "v_lshrrev_b32": lambda n, a: a >> (n & SHIFT),
    "v_lshlrev_b32": lambda n, a: a << (n & SHIFT),
    "v_lshl_or_b32": lambda a, n, b: (a << (n & SHIFT)) | b,
    "v_and_or_b32": lambda a, b, c: (a & b) | c,
    "v_perm_b32": _v_perm,
    "v_cvt_f32_f16": _half,
}


class Lanes:
    """Lane i gets words[i]."""

    def __init__(self, words):
        self.words = np.asarray(words, dtype=U32)
        self.registers, self.stores = {}, {}
        self.loaded = False

    def value(self, text):
        if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", text):
            return np.full_like(self.words, U32(int(text, 0) & 0xFFFFFFFF))
        return self.registers[text]

    def stored(self):
        return np.stack([self.stores[offset] for offset in sorted(self.stores)], axis=1).view(np.float32)


class Ptx(Lanes):
    """One CTA of 128 lanes."""

    def run(self, text):
        lanes = np.arange(self.words.size, dtype=U32)
        special = {"%ctaid.x": 0 * lanes, "%nctaid.x": 0 * lanes + U32(1), "%tid.x": lanes, "%laneid": lanes % U32(32)}
        self.registers |= special
        body = text[text.index("{", text.index(".entry")) :]
        body = re.sub(r"//.*", "", body).replace("{ .reg .b32 zero;", "").replace("; }", ";")
        for line in map(str.strip, re.split(r"[;\n]", body)):
            if line == "ret":
                break
            if line and not line.startswith((".", "$", "{", "}")):
                self.step(*line.split(maxsplit=1))
        return self.stored()

    def step(self, operation, rest):
        targets, *sources = (part.strip() for part in re.split(r",\s*(?![^{]*\})", rest))
        registers = re.findall(r"%r\w*|_", targets)
        if operation.startswith("ld.param"):
            return
        if operation.startswith("ld.global"):
            self.registers[registers[0]] = self.words
        elif operation.startswith("st.global"):
            for i, value in enumerate(sources[0].strip("{} ").split(",")):
                self.stores[self.registers.get(registers[0], 0) + 4 * i] = self.value(value.strip())
        elif len(registers) == 2:  # both halves of a word
            word = self.value(sources[0])
            self.registers |= {registers[0]: word & LOW, registers[1]: word >> U32(16)}
        elif operation == "mad.wide.s32":
            self.registers[targets] = 0
        elif operation == "add.s64":
            self.registers[targets] = self.registers.get(sources[0], 0) + int(sources[1], 0)
        else:
            known = PTX.get(operation) or PTX.get(operation.partition(".")[0])
            if known is None:
                raise ValueError(f"PTX: {operation} {rest}")
            self.registers[targets] = known(*map(self.value, sources)).astype(U32)


class Gcn(Lanes):
    """One wave."""

    def value(self, text):
        return super().value(text[:-2]) >> U32(16) if text.endswith(".h") else super().value(text.removesuffix(".l"))

    def run(self, text, name):
        body = text[text.index(f"\n{name}:") :]
        for line in body[: body.index("s_endpgm")].splitlines()[2:]:
            for part in line.split(";")[0].split("::"):
                if part := part.strip():
                    self.step(part)
        return self.stored()

    def step(self, line):
        operation, _, rest = line.replace("\t", " ").partition(" ")
        if operation.startswith(("buffer_load", "global_load")):
            self.registers[rest.split(",")[0].strip()] = self.words
            self.loaded = True
            return
        if operation.startswith(("buffer_store", "global_store")):
            offset = re.search(r"offset:(\d+)", rest)
            first, last = map(int, re.search(r"v\[(\d+):(\d+)\]", rest).groups())
            for i, register in enumerate(range(first, last + 1)):
                self.stores[(int(offset.group(1)) if offset else 0) + 4 * i] = self.registers[f"v{register}"]
            return
        if not operation.startswith(("v_", "s_mov_b32")):
            return
        modifiers = dict(re.findall(r"(src\d_sel|dst_sel):(\w+)", rest))
        operands = [part.strip() for part in re.sub(r"\b(dst_sel|dst_unused|src\d_sel):\w+", "", rest).split(",")]
        target, *sources = operands
        try:
            values = [self.value(source) for source in sources]
        except KeyError:  # lane numbers and addresses, from registers that the launch fills
            if self.loaded and operation.startswith("v_") and not operation.startswith(("v_lshl", "v_and_or")):
                raise
            self.registers.pop(target, None)
            return
        for i, word in enumerate(values):
            half = {"WORD_1": word >> U32(16), "WORD_0": word & LOW}
            values[i] = half.get(modifiers.get(f"src{i}_sel"), word)
        assert modifiers.get("dst_sel", "DWORD") == "DWORD", line
        name = re.sub(r"_(e32|e64|sdwa)$", "", operation).replace("v_dual_", "v_")
        if name not in GCN:
            raise ValueError(f"GCN: {line}")
        self.registers[target] = GCN[name](*values).astype(U32)

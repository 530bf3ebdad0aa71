"""Execute the straight-line PTX or AMD GCN of a small kernel in numpy, one lane per input word.

Semantics are those of the vendors' manuals (PTX ISA: prmt, shr; AMD ISA: V_PERM_B32, V_AND_OR_B32, SDWA). Only what the
decode probe compiles to is known; anything else raises ValueError with the line. Addresses are not followed:
the kernel's one load delivers the words, its stores are collected by their constant offset.
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


def _integer(text):
    return U32(int(text, 0) & 0xFFFFFFFF)


class Ptx:
    """One CTA of 128 lanes: lane i gets words[i]."""

    def __init__(self, words):
        self.words = np.asarray(words, dtype=U32)
        self.registers = {}
        self.stores = {}

    def value(self, text):
        text = text.strip()
        if text in ("%ctaid.x",):
            return np.zeros_like(self.words)
        if text == "%nctaid.x":
            return np.full_like(self.words, 1)
        if text == "%tid.x":
            return np.arange(self.words.size, dtype=U32)
        if text == "%laneid":
            return np.arange(self.words.size, dtype=U32) % U32(32)
        if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", text):
            return np.full_like(self.words, _integer(text))
        return self.registers[text]

    def run(self, text):
        body = text[text.index("{", text.index(".entry")) :]
        body = re.sub(r"//.*", "", body).replace("{ .reg .b32 zero;", "").replace("; }", ";")
        for line in re.split(r"[;\n]", body):
            line = line.strip()
            if line == "ret":
                break
            if line and not line.startswith((".", "$", "{", "}")):
                self.step(line)
        return np.stack([self.stores[offset] for offset in sorted(self.stores)], axis=1).view(np.float32)

    def step(self, line):
        operation, _, rest = line.partition(" ") if " " in line else line.partition("\t")
        operation = operation.strip()
        rest = rest.strip()
        if operation.startswith("ld.param"):
            return
        if operation.startswith("ld.global"):
            target = re.search(r"\{\s*(%r\d+)\s*\}", rest).group(1)
            self.registers[target] = self.words
            return
        if operation.startswith("st.global"):
            address = re.search(r"\[\s*(%rd\d+)", rest).group(1)
            values = re.search(r"\{(.*)\}", rest).group(1).split(",")
            for i, value in enumerate(values):
                self.stores[self.registers.get(address, 0) + 4 * i] = self.value(value)
            return
        if match := re.fullmatch(r"\{_,\s*(%rs\d+)\},\s*(%r\d+)", rest):
            self.registers[match.group(1)] = self.value(match.group(2)) >> U32(16)
            return
        if match := re.fullmatch(r"\{(%rs\d+),\s*(%rs\d+)\},\s*(%r\d+)", rest):
            self.registers[match.group(1)] = self.value(match.group(3)) & U32(0xFFFF)
            self.registers[match.group(2)] = self.value(match.group(3)) >> U32(16)
            return
        target, *sources = (part.strip() for part in rest.split(","))
        if operation == "mad.wide.s32":
            self.registers[target] = 0
            return
        if operation == "add.s64":
            self.registers[target] = self.registers.get(sources[0], 0) + int(sources[1], 0)
            return
        values = [self.value(source) for source in sources]
        if operation.startswith("mov."):
            result = values[0]
        elif operation.startswith("and."):
            result = values[0] & values[1]
        elif operation.startswith("or."):
            result = values[0] | values[1]
        elif operation.startswith("xor."):
            result = values[0] ^ values[1]
        elif operation in ("add.s32", "add.u32"):
            result = values[0] + values[1]
        elif operation == "shl.b32":
            result = np.where(values[1] > 31, U32(0), values[0] << (values[1] & U32(31)))
        elif operation in ("shr.u32", "shr.b32"):
            result = np.where(values[1] > 31, U32(0), values[0] >> (values[1] & U32(31)))
        elif operation == "shr.s32":
            result = (values[0].view(np.int32) >> values[1].astype(np.int32)).view(U32)
        elif operation == "prmt.b32":
            nibbles = np.stack([(values[2] >> U32(4 * i)) & U32(15) for i in range(4)], axis=-1)
            result = _permute(values[0], values[1], nibbles & U32(7), (nibbles & U32(8)) != 0)
        elif operation == "cvt.u16.u32":
            result = values[0] & U32(0xFFFF)
        elif operation == "cvt.f32.f16":
            result = _half(values[0])
        else:
            raise ValueError(f"PTX: {line}")
        self.registers[target] = result.astype(U32)


class Gcn:
    """One wave: lane i gets words[i]."""

    def __init__(self, words):
        self.words = np.asarray(words, dtype=U32)
        self.registers = {}
        self.stores = {}
        self.loaded = False

    def value(self, text):
        if text.endswith(".h"):
            return self.value(text[:-2]) >> U32(16)
        text = text.removesuffix(".l")
        if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", text):
            return np.full_like(self.words, _integer(text))
        return self.registers[text]

    def run(self, text, name):
        body = text[text.index(f"\n{name}:") :]
        body = body[: body.index("s_endpgm")]
        for line in body.splitlines()[2:]:
            for part in line.split(";")[0].split("::"):
                if part := part.strip():
                    self.step(part)
        return np.stack([self.stores[offset] for offset in sorted(self.stores)], axis=1).view(np.float32)

    def step(self, line):
        operation, _, rest = line.replace("\t", " ").partition(" ")
        if operation.startswith(("buffer_load", "global_load")):
            self.registers[rest.split(",")[0].strip()] = self.words
            self.loaded = True
            return
        if operation.startswith(("buffer_store", "global_store")):
            offset = re.search(r"offset:(\d+)", rest)
            first, last = re.search(r"v\[(\d+):(\d+)\]", rest).groups()
            for i, register in enumerate(range(int(first), int(last) + 1)):
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
        for i in range(len(values)):
            if modifiers.get(f"src{i}_sel") == "WORD_1":
                values[i] = values[i] >> U32(16)
            elif modifiers.get(f"src{i}_sel") == "WORD_0":
                values[i] = values[i] & U32(0xFFFF)
        assert modifiers.get("dst_sel", "DWORD") == "DWORD", line
        name = re.sub(r"_(e32|e64|sdwa)$", "", operation).replace("v_dual_", "v_")
        if name in ("v_mov_b32", "s_mov_b32"):
            result = values[0]
        elif name == "v_and_b32":
            result = values[0] & values[1]
        elif name == "v_or_b32":
            result = values[0] | values[1]
        elif name == "v_lshrrev_b32":
            result = values[1] >> (values[0] & U32(31))
        elif name == "v_lshlrev_b32":
            result = values[1] << (values[0] & U32(31))
        elif name == "v_lshl_or_b32":
            result = (values[0] << (values[1] & U32(31))) | values[2]
        elif name == "v_and_or_b32":
            result = (values[0] & values[1]) | values[2]
        elif name == "v_perm_b32":
            selectors = _bytes(values[2])
            assert (selectors < 8).all(), f"selects a constant or a sign: {line}"
            result = _permute(values[1], values[0], selectors, np.zeros(selectors.shape, dtype=bool))
        elif name == "v_cvt_f32_f16":
            result = _half(values[0])
        else:
            raise ValueError(f"GCN: {line}")
        self.registers[target] = result.astype(U32)

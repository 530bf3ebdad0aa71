"""Compile a kernel per architecture as Triton's JIT would and ahead of time, and print what is read of both."""

import json
from types import SimpleNamespace

import triton
from rooflens.kernels import aot, registry
from rooflens.kernels.geometry import Binary
from rooflens.plugins.isa.compiled import aot_compiler, launched
from rooflens.plugins.isa.compiled.account import account
from rooflens.plugins.isa.compiled.scan import described_device
from rooflens.shapes.gpu_architectures import architecture
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

rows = []
provider = registry.load(["mma_4bit"])["mma_4bit"]
problem, scheme = Problem(16, 4096, 4096), parse_scheme("nf4-g64", DType.BF16)
for arch in ("sm90", "gfx942", "gfx1201"):
    device = described_device(arch)
    config = provider.candidates(problem, scheme, device)[0]
    (request,) = provider.builds(problem, scheme, device, config)
    signature, constants, attributes = aot.specialize_request(arch, request)
    source = ASTSource(aot.find_kernel(request.kernel), signature, constexprs=constants, attrs=attributes)
    amd = architecture(arch).is_amd
    target = GPUTarget("hip", arch, architecture(arch).wave_size) if amd else GPUTarget("cuda", int(arch[2:]), 32)
    compiled = triton.compile(source, target=target, options=dict(request.options))
    build = aot_compiler.compile_here(arch, request)
    # registers are known to the driver, which is not here
    binary = Binary(
        SimpleNamespace(asm=compiled.asm, metadata=compiled.metadata, n_regs=build.registers), request.decoded
    )
    found = launched.facts(binary)
    decode_per_weight, decode_integer_per_weight = found.decoding
    values = account(build, arch, request.decoded)
    rows.append(
        {
            "arch": arch, "resident": found.resident, "decode_per_weight": decode_per_weight,
            "isa_decode_per_weight": values["decode_per_weight"], "isa_occupancy": values["occupancy"],
            "isa_warps": values["warps"], "decode_integer_per_weight": decode_integer_per_weight,
            "isa_decode_integer_per_weight": values.get("decode_integer_per_weight"),
        }
    )  # fmt: skip
print(json.dumps(rows))

"""Library baselines: the bf16 GEMM on decoded operands, with and without the decoding of W in the timed call."""

from collections.abc import Callable, Sequence

import torch

from ...shapes.device import Device
from ...shapes.problem import Op, Problem
from ...shapes.schemes.mxfp8 import MxFp8
from ..aot import Request, kernel_path, large_operands
from ..fourbit.blas_forms import prepare_gemm
from ..provider import Config, Launch, Provider, Role, Support
from .inputs import MxFp8Inputs
from .quantize import BLOCK, scale_values

BLOCKS = 128
"""Blocks of 32 per program of the decoding kernel."""

_CPU_CHUNK = 1 << 18
"""Elements decoded at once on the CPU: its bf16 stays in the caches between the two passes over it."""


def default_form(problem: Problem, device: Device) -> str:
    """Form of the product (`fourbit.blas_forms.FORMS`): oneDNN does not reach the memory bandwidth at one row."""
    return "native" if device.kind == "cpu" and problem.M == 1 else "mm"


class BlasBf16Mx(Provider[MxFp8, MxFp8Inputs]):
    """The bf16 GEMM on weights that `prepare` decoded: what weights of 16 bits cost.

    X arrives quantized and is new at every call, so that it is decoded inside: [M, K] elements.
    """

    family = "mxfp8"
    name = "blas_bf16_mx"
    role = Role.BLAS
    decodes_weights = False

    def supports(self, problem: Problem, scheme: MxFp8, device: Device) -> Support:
        """Any device."""
        return Support.yes() if problem.op is Op.GEMM else Support.no(f"multiplies; this is a {problem.op}")

    def candidates(self, problem: Problem, scheme: MxFp8, device: Device) -> Sequence[Config]:
        """The forms of the product, the default first."""
        default = default_form(problem, device)
        forms = ("mm", "mm_t") if device.is_gpu else ("mm", "native", "mm_t")
        return [{"gemm": form} for form in sorted(forms, key=lambda form: form != default)]

    def prepare(self, inputs: MxFp8Inputs, config: Config | None = None) -> Launch:
        """Allocate both decoded operands and Y; decode W here, unless it belongs to the call."""
        form = (config or {}).get("gemm") or default_form(inputs.problem, inputs.device)
        x = torch.empty(inputs.x.shape, dtype=torch.bfloat16, device=inputs.x.device)
        weight = torch.empty(inputs.w.shape, dtype=torch.bfloat16, device=inputs.x.device)
        out = inputs.empty_output()
        decode_x = prepare_decode(inputs.x, inputs.x_scale, x)
        decode_w = prepare_decode(inputs.w, inputs.w_scale, weight)
        decode_w()
        gemm = prepare_gemm(form, x, weight, None, out)
        if self.decodes_weights:

            def run() -> None:
                decode_x()
                decode_w()
                gemm()

        else:

            def run() -> None:
                decode_x()
                gemm()

        settings = {} if inputs.device.is_gpu else {"threads": torch.get_num_threads()}
        return Launch(run, out, config={"gemm": form, **settings})

    def math_dtype(self, problem: Problem, scheme: MxFp8, device: Device) -> str:
        """bf16."""
        return "bf16"

    def moved_bytes(self, problem: Problem, scheme: MxFp8, config: Config) -> int:
        """X read, its decoded copy written and read; decoded W and Y once; a transposed product is copied."""
        m, n, k = problem.M, problem.N, problem.K
        transposed = 4 * m * n if config["gemm"] == "mm_t" else 0
        return m * (k + k // BLOCK) + 4 * m * k + 2 * n * k + 2 * m * n + transposed

    def working_set_bytes(self, problem: Problem, scheme: MxFp8, config: Config) -> int:
        """X, its decoded copy, decoded W, Y."""
        m, n, k = problem.M, problem.N, problem.K
        return m * (k + k // BLOCK) + 2 * m * k + 2 * n * k + 2 * m * n

    def builds(self, problem: Problem, scheme: MxFp8, device: Device, config: Config) -> Sequence[Request]:
        """The kernel that decodes X; the GEMM is the library's."""
        if not device.is_gpu:
            return []
        return [decode_request(problem.M, problem.K)]


class DequantBlasMx(BlasBf16Mx):
    """What a framework does without a fused kernel: decode W into a buffer, then the bf16 GEMM; both are timed."""

    name = "dequant_blas_mx"
    role = Role.DEQUANT_BLAS
    decodes_weights = True

    def moved_bytes(self, problem: Problem, scheme: MxFp8, config: Config) -> int:
        """W and its scales read and decoded W written, beside what the GEMM moves."""
        n, k = problem.N, problem.K
        return n * (k + k // BLOCK) + 2 * n * k + super().moved_bytes(problem, scheme, config)

    def working_set_bytes(self, problem: Problem, scheme: MxFp8, config: Config) -> int:
        """Stored W and its scales beside what the GEMM touches."""
        n, k = problem.N, problem.K
        return n * (k + k // BLOCK) + super().working_set_bytes(problem, scheme, config)

    def builds(self, problem: Problem, scheme: MxFp8, device: Device, config: Config) -> Sequence[Request]:
        """The kernel that decodes X, and the same for W."""
        if not device.is_gpu:
            return []
        return [decode_request(problem.M, problem.K), decode_request(problem.N, problem.K)]


def prepare_decode(q: torch.Tensor, scales: torch.Tensor, out: torch.Tensor) -> Callable[[], object]:
    """Return the call that overwrites bf16 `out` with payload `q` times `scales`; on a GPU it allocates nothing."""
    if q.device.type == "cpu":
        return lambda: _decode_on_cpu(q, scales, out)
    from ..triton_launch import compile_launch
    from .triton_quantize import dequantize_mx_kernel

    blocks = scales.numel()
    arguments = {"payload": q.view(torch.uint8), "scales": scales, "out": out, "blocks": blocks}
    grid = (-(-blocks // BLOCKS), 1, 1)
    return compile_launch(dequantize_mx_kernel, grid, arguments, _constants(blocks), {"num_warps": 4}).run


def decode_request(rows: int, depth: int) -> Request:
    """What `prepare_decode` compiles for [rows, depth] elements on a GPU."""
    from .triton_quantize import dequantize_mx_kernel

    elements = rows * depth
    return Request(
        kernel_path(dequantize_mx_kernel),
        {"payload": "*u8", "scales": "*u8", "out": "*bf16", "blocks": elements // BLOCK},
        _constants(elements // BLOCK),
        {"num_warps": 4},
        large_operands({"payload": elements, "out": 2 * elements}),
    )


def _constants(blocks: int) -> dict[str, int | bool]:
    return {"MASKED": blocks % BLOCKS != 0, "BLOCKS": BLOCKS}


def _decode_on_cpu(q: torch.Tensor, scales: torch.Tensor, out: torch.Tensor) -> None:
    step = max(1, _CPU_CHUNK // q.shape[1])
    for first in range(0, q.shape[0], step):
        part = slice(first, first + step)
        # exact: four significant bits, and a power of two that bf16 has (2^-127 as a subnormal)
        out[part].copy_(q[part]).unflatten(-1, (-1, BLOCK)).mul_(scale_values(scales[part], torch.bfloat16)[..., None])


BLAS_BF16 = BlasBf16Mx()
DEQUANT_BLAS = DequantBlasMx()

"""Ways to ask torch for Y = X W^T + bias with dense operands, all writing a preallocated Y.

They compute the same product, but not at the same speed: which of torch's libraries serves a call depends on layout,
type and CPU. A baseline must use the best of them. On GPUs that is `mm`. On CPUs (2 cores with AVX-512 BF16, torch
2.13, cold, N = K = 4096, ms):

    bf16  M=1   mm 1.0, native 0.65, F.linear 1.0, mv 1.8   (oneDNN does not reach the memory bandwidth at one row)
    fp32  M=2   mm 5.4, mm_t 2.2                            (MKL's GEMM repeats the reading of W per row)
    fp16  M=64  mm 35, fp32_mm_t 12                         (oneDNN has no fp16 without AVX512-FP16: torch loops)
"""

from collections.abc import Callable
from functools import partial

import torch

from ...shapes.problem import Problem
from ...shapes.scheme import DType, Scheme
from .blas_lt import LT, chosen_gemm
from .library_names import onednn_has

FORMS = {
    "mm": "torch.mm or addmm of X and W.t()",
    "native": "mm with oneDNN switched off: torch's own GEMV",
    "mm_t": "W X.t() into a scratch [N,M], copied to Y",
    "fp32_mm": "X converted to fp32, mm with an fp32 W, Y rounded",
    "fp32_mm_t": "X converted to fp32, mm_t with an fp32 W, Y rounded",
}
"""Name -> what it does; `config["gemm"]` holds the name. Those of `blas_lt` are further ones."""


def default_form(problem: Problem, scheme: Scheme, kind: str) -> str:
    """Fastest form for a device of `kind` ("cpu" or "cuda"), by the rule that the measurements above gave."""
    if kind != "cpu":
        return "mm"
    transposed = problem.M in range(2, 6) or problem.M >= 16
    if scheme.dtype is DType.FP32:
        return "mm_t" if transposed else "mm"
    if onednn_has(scheme.dtype):
        return "native" if problem.M == 1 else "mm"
    if problem.M < 8:
        return "mm"
    return "fp32_mm_t" if transposed else "fp32_mm"


def forms(scheme: Scheme, kind: str) -> list[str]:
    """Forms that make sense for this type on a device of `kind`."""
    if kind != "cpu":
        return ["mm", "mm_t"]
    return ["mm", "mm_t"] if scheme.dtype is DType.FP32 else list(FORMS)


def weight_dtype(form: str, dtype: torch.dtype) -> torch.dtype:
    """Type in which W must be given to `form`, for activations of `dtype`."""
    return torch.float32 if form.startswith("fp32") else dtype


def prepare_gemm(
    form: str, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor
) -> Callable[[], object]:
    """Return the call that writes out[M,N] = x[M,K] weight[N,K]^T + bias[N]; its scratch is allocated here.

    "mm" and "fp32_mm" take batches of all of them as well.
    """
    if form.startswith(LT):
        return chosen_gemm(form, _mm(x, weight, bias, out), x, weight, bias, out)
    if form == "native":
        return _without_onednn(_mm(x, weight, bias, out))
    if form == "mm":
        return _mm(x, weight, bias, out)
    if form == "mm_t":
        return _mm_t(x, weight, bias, out)
    wide_x, wide_out = x.float(), out.float()
    wide_bias = bias.float() if bias is not None else None
    gemm = (_mm_t if form == "fp32_mm_t" else _mm)(wide_x, weight, wide_bias, wide_out)

    def run() -> None:
        wide_x.copy_(x)
        gemm()
        out.copy_(wide_out)

    return run


def moved_bytes(form: str, problem: Problem, scheme: Scheme) -> int:
    """Bytes that `form` reads and writes: operands, Y, and the scratch that it writes and reads again."""
    rows, columns, depth = problem.M, problem.N, problem.K
    wide = form.startswith("fp32")
    weight = columns * depth * (4 if wide else scheme.dtype.bytes)
    total = weight + scheme.activation_bytes(problem) + scheme.bias_bytes(problem) + scheme.output_bytes(problem)
    if wide:
        total += 2 * 4 * (rows * depth + rows * columns)
    if form.endswith("mm_t"):
        total += 2 * rows * columns * (4 if wide else scheme.dtype.bytes)
    return problem.B * total


def require_full_fp32() -> str:
    """Make fp32 products of this process use no TF32 or bf16 passes; return torch's name of that setting."""
    torch.set_float32_matmul_precision("highest")
    return str(torch.get_float32_matmul_precision())


def _mm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> Callable[[], object]:
    transposed = weight.mT
    if x.dim() == 3:
        if bias is None:
            return lambda: torch.bmm(x, transposed, out=out)
        return partial(torch.baddbmm, bias.unsqueeze(1), x, transposed, out=out)
    if bias is None:
        return lambda: torch.mm(x, transposed, out=out)
    return lambda: torch.addmm(bias, x, transposed, out=out)


def _mm_t(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> Callable[[], object]:
    columns = x.t()
    scratch = torch.empty(weight.shape[0], x.shape[0], dtype=out.dtype, device=out.device)

    def run() -> None:
        torch.mm(weight, columns, out=scratch)
        if bias is None:
            out.copy_(scratch.t())
        else:
            torch.add(scratch.t(), bias, out=out)

    return run


def _without_onednn(gemm: Callable[[], object]) -> Callable[[], object]:
    onednn = torch.backends.mkldnn

    def run() -> None:
        before = onednn.enabled
        onednn.enabled = False
        try:
            gemm()
        finally:
            onednn.enabled = before

    return run

"""A tuned table in the CSV shape that aiter's tuned GEMM tables have.

`gfx,cu_num,M,N,K,dtype,q_dtype_w,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio`, one row per problem, type
and scheme: the fastest provider with its configuration. Where any problem is batched, a column B stands before M, as in
aiter's tables of batched GEMMs. `kernels.dispatch_table` reads it for a dispatcher.

gfx, cu_num     architecture and number of compute units (sm90 and 132 on an H200)
dtype           activation type
q_dtype_w       our scheme (nf4-g64): these weights have no name there
libtype         our provider
kernelId        position of the configuration in that provider's list for this problem
splitK          number of parts that K is divided into, where the configuration says
us              median time of one launch in microseconds
kernelName      provider and configuration in words
tflops, bw      useful 1e12 FLOP/s, and 1e9 byte/s of operands, scales and output once each
errRatio        share of the output outside rtol = atol = 1e-2 of the exact product rounded to the output type; aiter's
                tuners compare with an fp32 product of exact weights cast to bf16, which is the same in effect, and
                tolerate 0.05. A correct kernel that rounds its 4-bit weights to bf16 has about 0.1

What is not known is an empty field.
"""

from collections.abc import Iterable, Mapping

from .errors import UsageError
from .files.csv_file import csv_text
from .problem import Op, Pass, Problem
from .scheme import DType
from .schemes import parse_scheme
from .tuned import Key, TunedConfiguration

HEADER = (
    *("gfx", "cu_num", "M", "N", "K", "dtype", "q_dtype_w", "libtype", "kernelId"),
    *("splitK", "us", "kernelName", "tflops", "bw", "errRatio"),
)


def refuse_ambiguous(caches: Iterable[str]) -> None:
    """Raise UsageError when there is more than one cache state, for which it has no column."""
    if len(values := set(caches)) > 1:
        raise UsageError(
            f"--export: a table in that format cannot distinguish the cache states {', '.join(sorted(values))}: choose "
            "one with --cache"
        )


def fastest(choices: Mapping[Key, TunedConfiguration]) -> dict[Key, TunedConfiguration]:
    """Return the choice of the fastest provider of each problem and scheme, in the order of the table."""
    best: dict[Key, tuple[Key, TunedConfiguration]] = {}
    for key, choice in choices.items():
        problem = key._replace(provider="")
        if problem not in best or choice.time_s < best[problem][1].time_s:
            best[problem] = key, choice
    return dict(best.values())


def tuned_csv(choices: Mapping[Key, TunedConfiguration]) -> str:
    """Write the `fastest` provider of each problem and scheme.

    Raises UsageError when the table holds more than one cache state.
    """
    refuse_ambiguous(key.cache for key in choices)
    best = fastest(choices)
    batched = any(key.B > 1 for key in best)
    header = (*HEADER[:2], *["B"] * batched, *HEADER[2:])
    return csv_text(header, (_row(key, choice, batched) for key, choice in best.items()))


def _row(key: Key, choice: TunedConfiguration, batched: bool) -> list[str]:
    problem = Problem(key.M, key.N, key.K, key.B, Op(key.op), Pass(key.pass_), key.E, key.top_k)
    scheme = parse_scheme(key.scheme, DType(key.dtype))
    options = " ".join(f"{name}={value}" for name, value in sorted(choice.config.items()))
    return [
        key.arch,
        str(key.compute_units),
        *(str(size) for size in ([key.B] * batched + [key.M, key.N, key.K])),
        key.dtype,
        key.scheme,
        key.provider,
        "" if choice.candidate is None else str(choice.candidate),
        str(choice.config.get("SPLIT_K", "")),
        f"{choice.time_s * 1e6:.6g}",
        f"{key.provider} {options}".strip(),
        f"{problem.flops / choice.time_s / 1e12:.6g}",
        f"{scheme.compulsory_bytes(problem) / choice.time_s / 1e9:.6g}",
        "" if choice.error_ratio is None else f"{choice.error_ratio:.6g}",
    ]

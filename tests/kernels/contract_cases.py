"""Small problems of every family: what the promises of all providers are checked on."""

from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.scheme import DType, Scheme
from rooflens.shapes.schemes import parse_scheme

FOURBIT = (
    Problem(1, 64, 256),
    Problem(5, 96, 512),  # M no power of two
    Problem(33, 128, 256),
    Problem(2, 33, 256),  # N odd
    Problem(3, 32, 80),  # blocks straddle rows
    Problem(2, 7, 45),  # N*K odd
)

PASSES = tuple(Problem(130, 200, 256, pass_=one) for one in Pass)

ALIGNED = (Problem(128, 256, 384),)

GROUPED = (Problem(256, 128, 256, op=Op.GROUPED_GEMM, E=4),)

GROUPED_WEIGHTS = (
    Problem(1, 64, 256),
    Problem(5, 96, 640),  # M no power of two, an odd number of groups
    Problem(33, 33, 384),  # N odd
)

CASES: dict[str, tuple[tuple[str, tuple[Problem, ...]], ...]] = {
    "fourbit": tuple(
        (scheme, FOURBIT)
        for scheme in ("nf4-g64", "fp4-g32", "nf4-g128-nested", "nf4-g64-bias", "fp4-g256-nested-bias")
    )
    + tuple((scheme, GROUPED_WEIGHTS) for scheme in ("int4-g128", "int4-g32-zp", "int4-g128-zp", "mxfp4", "nvfp4")),
    "fp8train": (
        ("fp8-blockwise", PASSES),
        ("fp8-blockwise-prequantized", PASSES),
        ("fp8-blockwise-hybrid", PASSES),
        *(
            (f"fp8-quant-{kind}", (Problem(130, 1, 200, op=Op.QUANTIZE), Problem(1, 1, 128, op=Op.QUANTIZE)))
            for kind in ("row", "col", "rowcol", "weight")
        ),
    ),
    "torchao": (
        *(
            (f"ao-{kind}", (Problem(256, 1, 384, op=Op.QUANTIZE),))
            for kind in ("act-lhs", "act-rhs", "act-transposed-lhs", "weight-rhs", "weight-transposed-rhs")
        ),
        ("ao-1x128-128x128", ALIGNED),
        ("ao-1x128-128x1", ALIGNED),
        ("ao-linear", (Problem(256, 128, 256), Problem(256, 128, 256, pass_=Pass.STEP))),
        ("ao-grouped", GROUPED),
        (
            "ao-grouped-linear",
            tuple(Problem(512, 128, 256, op=Op.GROUPED_GEMM, E=2, pass_=one) for one in (Pass.FWD, Pass.STEP)),
        ),
    ),
    "mxfp8": (
        *(
            (f"mxfp8-{rule}", (Problem(1, 64, 256), Problem(5, 96, 512), Problem(33, 128, 256)))
            for rule in ("rceil", "even")
        ),
        *(
            (f"mxfp8-quant-{rule}", (Problem(5, 1, 256, op=Op.QUANTIZE),))
            for rule in ("rceil", "floor", "ceil", "even")
        ),
    ),
    "mxfp8_moe": tuple(
        (scheme, (Problem(4, 64, 256, op=Op.MOE_GEMM, E=8, top_k=2), Problem(9, 96, 128, op=Op.MOE_GEMM, E=4)))
        for scheme in ("mxfp8-moe-rceil", "mxfp8-moe-floor-weighted")
    ),
    "a16w8": tuple(
        (scheme, (Problem(1, 128, 256, B=3), Problem(33, 100, 130, B=2)))
        for scheme in ("a16w8-128x128", "a16w8-128x128-bias", "a16w8-128x128-prequant-bias")
    ),
}
"""family -> (scheme name, problems)"""


def schemes(family: str, dtype: DType) -> list[tuple[Scheme, tuple[Problem, ...]]]:
    """Schemes of a family that exist with this dtype, with their problems."""
    found = []
    for name, problems in CASES[family]:
        try:
            scheme = parse_scheme(name, dtype)
            for problem in problems:
                scheme.check(problem)
        except UsageError as error:
            if "dtype" not in str(error):
                raise
            continue
        found.append((scheme, problems))
    return found

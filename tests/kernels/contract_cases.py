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

PASSES = tuple(Problem(*sizes, pass_=one) for one in Pass for sizes in ((130, 200, 256), (5, 33, 130)))

PRODUCTS = (Problem(128, 256, 384), Problem(1, 5, 300), Problem(70, 200, 256))

GROUPED = tuple(Problem(*sizes, op=Op.GROUPED_GEMM, E=4) for sizes in ((256, 128, 256), (160, 200, 136), (48, 64, 128)))

LINEAR = (Problem(256, 128, 256), Problem(33, 100, 130), *(Problem(256, 128, k, pass_=Pass.STEP) for k in (200, 208)))


def quantizations(*sizes: tuple[int, int]) -> tuple[Problem, ...]:
    return tuple(Problem(rows, 1, columns, op=Op.QUANTIZE) for rows, columns in sizes)


def moe(m: int, n: int, k: int, e: int, top_k: int) -> Problem:
    return Problem(m, n, k, op=Op.MOE_GEMM, E=e, top_k=top_k)


def experts(*sizes: tuple[int, int, int, int, int]) -> tuple[Problem, ...]:
    return tuple(moe(*each) for each in sizes)


GROUPED_WEIGHTS = (
    Problem(1, 64, 256),
    Problem(5, 96, 640),  # M no power of two, an odd number of groups
    Problem(33, 33, 384),  # N odd
)

Cases = dict[str, tuple[tuple[str, tuple[Problem, ...]], ...]]

CASES: Cases = {
    "fourbit": tuple(
        (scheme, FOURBIT)
        for scheme in ("nf4-g64", "fp4-g32", "nf4-g128-nested", "nf4-g64-bias", "fp4-g256-nested-bias")
    )
    + tuple((scheme, GROUPED_WEIGHTS) for scheme in ("int4-g128", "int4-g32-zp", "int4-g128-zp", "mxfp4", "nvfp4")),
    "fp8train": (
        ("fp8-blockwise", PASSES),
        ("fp8-blockwise-prequantized", PASSES),
        ("fp8-blockwise-hybrid", PASSES),
        ("fp8-blockwise-prequantized-hybrid", PASSES),
        *(
            (f"fp8-quant-{kind}", quantizations((130, 200), (1, 128), (300, 77)))
            for kind in ("row", "col", "rowcol", "weight")
        ),
    ),
    "torchao": (
        *(
            (f"ao-{kind}", quantizations((256, 384)))
            for kind in ("act-lhs", "act-rhs", "act-transposed-lhs", "weight-rhs", "weight-transposed-rhs")
        ),
        ("ao-1x128-128x128", PRODUCTS),
        ("ao-1x128-128x1", PRODUCTS),
        ("ao-linear", LINEAR),
        ("ao-grouped", GROUPED),
        (
            "ao-grouped-linear",
            (
                *(Problem(640, 72, 136, op=Op.GROUPED_GEMM, E=3, pass_=one) for one in (Pass.FWD, Pass.STEP)),
                Problem(256, 72, 136, op=Op.GROUPED_GEMM, E=3, pass_=Pass.STEP),  # an expert without rows
                Problem(256, 144, 272, op=Op.GROUPED_GEMM, E=3, pass_=Pass.STEP),  # and whole 16 bytes in rows
            ),
        ),
    ),
    "mxfp8": (
        *(
            (
                f"mxfp8-{rule}",
                tuple(Problem(*sizes) for sizes in ((1, 64, 256), (5, 33, 512), (40, 40, 256), (33, 40, 96))),
            )
            for rule in ("rceil", "even")
        ),
        *((f"mxfp8-quant-{rule}", quantizations((7, 224))) for rule in ("rceil", "floor", "ceil", "even")),
    ),
    "mxfp8_moe": tuple(
        (scheme, experts((4, 64, 256, 8, 2), (9, 96, 128, 4, 1), (5, 48, 160, 6, 3), (1, 40, 64, 9, 2)))
        for scheme in ("mxfp8-moe-rceil", "mxfp8-moe-floor-weighted")
    ),
    "a16w8": tuple(
        (scheme, (Problem(1, 128, 256, B=3), Problem(33, 150, 300, B=2), Problem(5, 100, 512)))
        for scheme in (f"a16w8-128x128{more}" for more in ("", "-bias", "-prequant", "-prequant-bias"))
    ),
}
"""family -> (scheme name, problems)"""


TRAINING = tuple(name for name, _ in CASES["fp8train"] if "quant-" not in name)

LARGER_DEFAULTS: Cases = {
    "fp8train": tuple(
        (
            name,
            tuple(
                Problem(*sizes, pass_=one)
                for one in Pass
                for sizes in ((256, 384, 512), (1000, 1104, 1200), (1, 130, 200), (1040, 784, 528), (4096, 1024, 2048))
            ),
        )
        for name in TRAINING
    ),
}
"""What the default configurations are checked on as well, on a GPU."""

LARGER: Cases = {
    "a16w8": tuple(
        (f"a16w8-128x128{more}", (Problem(65, 8, 16), Problem(300, 136, 208, B=2), Problem(2300, 264, 144)))
        for more in ("", "-bias", "-prequant")
    ),
    "fourbit": (
        ("nf4-g64", (Problem(1, 4096, 4096),)),
        ("fp4-g64-nested-bias", (Problem(1, 512, 8192),)),
        ("nf4-g128-nested", (Problem(3, 1000, 2880),)),
        ("nf4-g4096-bias", (Problem(8, 1024, 768),)),
        ("fp4-g32", (Problem(17, 130, 333),)),
        ("nf4-g64-bias", (Problem(130, 512, 1024),)),
    ),
    "fp8train": (
        *((name, (Problem(512, 768, 640, pass_=Pass.STEP),)) for name in TRAINING),
        *(
            (f"fp8-quant-{kind}", quantizations((4096, 4096), (150, 300), (1, 130), (1000, 1104)))
            for kind in ("row", "col", "rowcol", "weight")
        ),
    ),
    "torchao": tuple((name, quantizations((1024, 2048))) for name, problems in CASES["torchao"] if problems[0].N == 1),
    "mxfp8": (
        (
            "mxfp8-rceil",
            tuple(
                Problem(m, n, k)
                for m in (1, 2, 3, 4, 7, 8, 16, 17, 32, 64)
                for n, k in ((1152, 6144), (200, 1536), (72, 416))
            ),
        ),
        *(
            (f"mxfp8-quant-{rule}", quantizations((1, 32), (3, 416), (64, 6144), (1000, 2048)))
            for rule in ("floor", "ceil", "even", "rceil")
        ),
    ),
    "mxfp8_moe": tuple(
        (
            scheme,
            experts(
                *((4, 1536, 6144, 32, 4), (8, 6144, 768, 64, 1), (1, 512, 1024, 16, 2)),
                *((3, 100, 160, 5, 2), (200, 256, 512, 8, 2), (1000, 256, 512, 4, 2)),
            ),
        )
        for scheme in ("mxfp8-moe-rceil", "mxfp8-moe-rceil-weighted")
    ),
}
"""What every candidate is checked on as well, on a GPU."""


CONFIGURED: Cases = {
    "fourbit": (
        (
            "nf4-g64",
            tuple(Problem(m, 4096, k) for m in (1, 2, 3, 5, 9, 33, 2048) for k in (64, 2880, 4099, 28672)),
        ),
    ),
    "mxfp8_moe": (
        (
            "mxfp8-moe-rceil",
            experts(*((m, *one) for m in (1, 5, 16, 4096) for one in ((1536, 6144, 128, 4), (6144, 768, 32, 1)))),
        ),
    ),
}
"""What has configurations as well."""


def schemes(family: str, dtype: DType, cases: Cases | None = None) -> list[tuple[Scheme, tuple[Problem, ...]]]:
    """Schemes of a family that exist with this dtype, with their problems, of CASES or others."""
    found = []
    for name, problems in (CASES if cases is None else cases).get(family, ()):
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

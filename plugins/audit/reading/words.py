"""The vocabulary of table headers: words, and what each may stand for."""

import re

SIZES = {
    "M": "M",
    "N": "N",
    "K": "K",
    "B": "B",
    "E": "E",
    "batch": "B",
    "experts": "E",
    "num_experts": "E",
    "groups": "E",
    "top_k": "top_k",
    "topk": "top_k",
    "batch_size": "B",
    "tokens": "M",
    "num_tokens": "M",
    "M_total": "M",
    "total_M": "M",
    "M_per_expert": "M",
    "m/group": "M",
    "M/group": "M",
    "M/expert": "M",
}
"""Header (exact, after blanks became underscores): the size that it gives."""

TOTAL_M = frozenset(("tokens", "num_tokens", "M_total", "total_M"))
"""Headers that say that M counts the rows of all experts."""

PER_EXPERT_M = frozenset(("M_per_expert", "m/group", "M/group", "M/expert"))

PASSES = {
    **dict.fromkeys(("fwd", "forward"), "fwd"),
    **dict.fromkeys(("bwd", "backward"), "bwd"),
    **dict.fromkeys(("comb", "combined", "cmb", "step", "fwdbwd"), "step"),
    "dgrad": "dgrad",
    "wgrad": "wgrad",
}

BASES = frozenset(
    ("old", "main", "master", "base", "baseline", "before", "ref", "reference", "original", "stock", "eager")
)
HEADS = frozenset(("new", "opt", "optimized", "optimised", "pr", "head", "after", "branch", "ours", "fused", "tuned"))
"""Words for the two sides of a change."""

SLOWER = frozenset(("slower", "slowdown"))
"""Words of a ratio that is above 1 where the new side takes longer."""

DTYPES = ("bf16", "fp16", "fp32", "tf32", "fp8", "mxfp8", "mxfp4", "int8")

FOUR_BITS = ("fp4", "nvfp4")
"""Names of types that multiply at the rate of mxfp4, where a device knows them."""

_DTYPE_NAMES = {
    **{name: name for name in DTYPES},
    **dict.fromkeys(("bfloat16", "fp16/bf16"), "bf16"),
    **dict.fromkeys(("float16", "half"), "fp16"),
    **dict.fromkeys(("float32", "float"), "fp32"),
    **dict.fromkeys(("float8", "e4m3", "e4m3fn", "e4m3fnuz", "e5m2", "w8a8", "fp8e4m3"), "fp8"),
    **dict.fromkeys(("fp4", "nvfp4", "float4", "e2m1"), "mxfp4"),
}


def dtypes_in(text: str) -> list[str]:
    """Types of the device table that a text names ("torch.float8_e4m3fnuz": fp8)."""
    words = re.split(r"[^a-z0-9]+", text.lower())
    return list(dict.fromkeys(_DTYPE_NAMES[word] for word in words if word in _DTYPE_NAMES))


RATES = {"tflops": 1e12, "tflop": 1e12, "tflopss": 1e12, "gflops": 1e9, "pflops": 1e15, "flops": 1.0}
RATES |= {f"{prefix}{rest}": 10.0**power for prefix, power in (("g", 9), ("t", 12), ("p", 15)) for rest in ("fs", "f")}
"""Word: FLOP/s per unit."""

BANDWIDTHS = {"gbs": 1e9, "gbps": 1e9, "gib/s": 2.0**30, "tbs": 1e12, "tbps": 1e12, "bandwidth": 1e9, "bw": 1e9}

THROUGHPUTS = frozenset(("fps", "qps", "tps", "throughput"))
"""Words of a header that counts tokens, samples or requests per second, beside `is_per_second`."""


def is_per_second(word: str) -> bool:
    """True for things per second, whatever they are: "mp/s", "paths/sec"."""
    return word.partition("/")[2] in ("s", "sec", "second") and word not in BANDWIDTHS


BYTES = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
"""Units of sizes in bytes; kb, mb and gb are also used for the binary ones."""

STATISTICS = {
    **dict.fromkeys(("mean", "average", "avg"), "mean"),
    **dict.fromkeys(("gmean", "geomean"), "gmean"),
    "median": "median",
    **dict.fromkeys(("min", "minimum"), "min"),
    **dict.fromkeys(("max", "maximum"), "max"),
    "p25": "p25",
    "p75": "p75",
}

SUMMARIES = {**STATISTICS, "total": "sum", "sum": "sum"}
"""Words of rows that sum others up."""

_GEOMETRIC = frozenset(("geometric", "geo", "geom", "geo."))

_ABOUT_SUMMARIES = frozenset(
    ("speedup", "ratio", "overall", "all", "over", "across", "arithmetic", "arith", "rows", "row")
)
"""Words beside a statistic that leave it a summary of the rows; others make it a quantity ("mean TTFT")."""

QUANTILES = {
    **dict.fromkeys(("min", "minimum", "lowest"), 0.0),
    "median": 0.5,
    **dict.fromkeys(("max", "maximum", "highest"), 1.0),
    **{f"p{percent}": percent / 100 for percent in (1, 5, 10, 20, 25, 50, 75, 80, 90, 95, 99)},
}
"""Word of a header: where the statistic stands among the sorted samples."""

IDS = frozenset(("testid", "tid", "id", "idx", "case_id"))

DEVICES = frozenset(("device", "gpu", "arch", "architecture", "hardware", "hw", "chip", "accelerator", "target"))
"""Words of a header whose cells may name the device of their row."""

COUNTS = frozenset(("cases", "count", "shapes", "n", "iters", "iterations"))

CHANGES = frozenset(("gain", "delta", "Δ", "δ", "reduction", "change", "improvement", "diff", "difference", "saved"))

ERRORS = frozenset(
    (
        *("diff", "error", "err", "acc", "accuracy", "cosine", "mse", "rmse", "snr", "loss", "std", "score", "ppl"),
        *("memory", "mem"),
    )
)
"""Words of a column that was not timed: results that are equal for equal inputs."""

SPREADS = frozenset(("std", "stddev", "iqr", "var", "cv"))
"""Words of a column that says how much numbers vary."""

FILLER = frozenset(("this", "the", "of", "in", "per", "printed", "pct", "x", "time", "latency", "kernel_time", "avg"))
"""Words that name no side."""


def summary_in(words: list[str]) -> str:
    """Return the statistic of a row that is called so ("Geo mean (18 shapes)"); "" where its name says more."""
    found = [SUMMARIES[word] for word in words if word in SUMMARIES]
    beside = {*FILLER, *COUNTS, *CHANGES, *_GEOMETRIC, *_ABOUT_SUMMARIES, *SUMMARIES}
    if len(found) != 1 or any(word not in beside and not word.isdigit() for word in words):
        return ""
    return "gmean" if found[0] == "mean" and _GEOMETRIC & {*words} else found[0]


_NO_MARKS = dict.fromkeys(map(ord, "*†‡¹²³⁴⁵⁶⁷⁸⁹⁰"))

_JOINED = re.compile(r"(?i)(?<=\w)-(?=(?:latency|time|tflops|gflops|gbps|gb/s|bandwidth|speedup|ms|us|ns)\b)")
"""What joins a name with its quantity ("aten-latency")."""

_SEPARATE = re.compile(r"[\s_()\[\],:]+")


_SLIPS = dict.fromkeys(("spedup", "speedups", "speed-up", "speed_up"), "speedup")


def words_of(header: str) -> list[str]:
    """Cut a header into lower-case words without footnote marks; "Fwd+Bwd", "TFLOP/s" and "GB/s" stay one word."""
    text = header.replace("\u2212", "-").translate(_NO_MARKS)
    text = re.sub(r"(?i)(fwd|forward)\s*(\+|and|&)\s*(bwd|backward)", "fwdbwd", text)
    text = re.sub(
        r"(?i)\b(t|g|p)?(flop|f|b)s?/(s|gpu|device|card)\b", lambda found: f"{found[1] or ''}{found[2]}s", text
    )
    text = _JOINED.sub(" ", text)
    text = text.replace("%", " % ").replace("Δ", " Δ ").replace("#", " ")
    words = (word if word == "Δ" else word.lower() for word in _SEPARATE.split(text) if word)
    return [_SLIPS.get(word, word) for word in words]


def passes_in(words: list[str]) -> set[str]:
    """Passes that words name."""
    return {PASSES[word] for word in words if word in PASSES}


_THRESHOLD = re.compile(r"(≥|>=|≤|<=|\bge\b|\ble\b)\s*(plus|minus|[+-])?\s*(\d+(?:\.\d+)?)\s*(%|pct|percent)")


def threshold_in(header: str) -> float | None:
    """Signed threshold in percent of a count ("shapes ≤ −1%", "n_le_minus1pct"); None when the header has none.

    The direction is the sign: a count at +5 counts changes of +5 and more, one at -5 those of -5 and less.
    """
    text = header.replace("\u2212", "-").replace("_", " ").lower()
    found = _THRESHOLD.search(text)
    if found is None:
        return None
    below = found[1] in ("≤", "<=", "le")
    negative = found[2] in ("minus", "-")
    size = float(found[3])
    return None if below != negative or not size else (-size if below else size)

"""The vocabulary of table headers: one table of names and of the coordinate or quantity that each may stand for."""

import re
from collections.abc import Iterable, Mapping

from .printed import SECONDS, UNITS

TOTAL_M = frozenset(("token", "tokens", "num_tokens", "M_total", "total_M"))
"""Headers that say that M counts the rows of all experts."""

PER_EXPERT_M = frozenset(("M_per_expert", "m/group", "m/expert", "M/group", "M/expert"))

SIZES = {
    **{name: name for name in ("M", "N", "K", "B", "E", "top_k")},
    **dict.fromkeys((*TOTAL_M, *PER_EXPERT_M), "M"),
    "inter_dim": "N",
    "model_dim": "K",
    **dict.fromkeys(("batch", "batch_size"), "B"),
    **dict.fromkeys(("expert", "experts", "num_experts", "groups"), "E"),
    "topk": "top_k",
}
"""Header (exact, after blanks became underscores): the size that it gives."""

_ANY_CASE = {name.lower(): size for name, size in SIZES.items() if len(name) > 1}


def size_named(name: str) -> str:
    """Return the size that a header gives; "" for another, and for a single letter in lower case."""
    plain = name.strip().replace(" ", "_")
    return SIZES.get(plain) or _ANY_CASE.get(plain.lower(), "")


def parameter_named(name: str) -> str:
    """Return the size that a parameter of a benchmark gives, as `size_named` does; also for a letter in lower case."""
    return size_named(name) or (name.upper() if name in ("m", "n", "k", "b") else "")


def split_parameters(parameters: Mapping[str, object]) -> tuple[dict[str, int], str]:
    """Sizes by their names, and everything else in words."""
    named = sizes_named(name for name, value in parameters.items() if re.fullmatch(r"[0-9]{1,18}", str(value)))
    rest = {name: value for name, value in parameters.items() if name not in named}
    return {size: int(str(parameters[name])) for name, size in named.items()}, listed(rest)


def sizes_named(names: Iterable[str]) -> dict[str, str]:
    """Return the size that each of these parameters gives, of those that give one: M before another word for it."""
    found: dict[str, str] = {}
    for name in sorted(names, key=lambda name: name != size_named(name)):
        found.setdefault(parameter_named(name), name)
    return {name: size for size, name in found.items() if size}


def listed(parameters: Mapping[str, object]) -> str:
    """Write "name=value" of each, one blank apart."""
    return " ".join(f"{name}={value}" for name, value in parameters.items())


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


BYTES = {"bytes": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
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

IDS = frozenset(("testid", "tid", "id", "idx", "case_id"))

DEVICES = frozenset(("device", "gpu", "gfx", "arch", "architecture", "hardware", "hw", "chip", "accelerator", "target"))
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

UNTIMED = frozenset(("error", "errors", "err", "err1", "err2", "errratio", "err_ratio", "rmse", "mse", "snr", "cosine"))
"""Words that make a column one of how well results agree, whatever else its header says."""

SPREADS = frozenset(("std", "stddev", "iqr", "var", "cv"))
"""Words of a column that says how much numbers vary."""

FILLER = frozenset(("this", "the", "of", "in", "per", "printed", "pct", "x", "time", "latency", "kernel_time", "avg"))
"""Words that name no side."""


def is_summary(words: list[str]) -> bool:
    """Tell whether a row is called like one that sums others up ("Geo mean (18 shapes)"), and not more than that."""
    beside = {*FILLER, *COUNTS, *CHANGES, *_GEOMETRIC, *_ABOUT_SUMMARIES, *SUMMARIES}
    return sum(word in SUMMARIES for word in words) == 1 and all(word in beside or word.isdigit() for word in words)


_NO_MARKS = dict.fromkeys(map(ord, "*†‡¹²³⁴⁵⁶⁷⁸⁹⁰"))

_JOINED = re.compile(r"(?i)(?<=\w)-(?=(?:latency|time|tflops|gflops|gbps|gb/s|bandwidth|speedup|ms|us|ns)\b)")
"""What joins a name with its quantity ("aten-latency")."""

_SEPARATE = re.compile(r"[\s_()\[\],:]+")


_PER_THING = re.compile(r"(?i)/(tok|token|iter|iteration|step|call|op|run|launch)\b")
"""What ends a header of a quantity of each of many things ("ms/token", "saved/step")."""

_SLIPS = dict.fromkeys(("spedup", "speedups", "speed-up", "speed_up"), "speedup")


def words_of(header: str) -> list[str]:
    """Cut a header into lower-case words without footnote marks; "Fwd+Bwd", "TFLOP/s" and "GB/s" stay one word."""
    text = header.replace("\u2212", "-").translate(_NO_MARKS)
    text = _PER_THING.sub("", text)
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


_TIMES = {"time", "latency", "duration", "elapsed", "runtime"}

_NO_TIMES = {"tflops", "gflops", "flops", "tbps", "gbps", "mbps", "bw", "bandwidth", "throughput", "speedup", "rate"}


def unit_of(name: str) -> str | None:
    """Return the unit of time that a column name states ("Latency (ms)", "kernel_us"); None without or with several."""
    found = {UNITS.get(word, word) for word in _letters(name)} & set(SECONDS)
    return found.pop() if len(found) == 1 else None


_RATE = re.compile(
    r"(?:/|(?<![a-z])per)[\s_]*(?:[mnuµμ]?s|[mu]?secs?|(?:milli|micro|nano)?seconds?|min|minutes?|hours?|h)(?![a-zµμ])"
    r"|\bs(?:ec)?\^?(?:-1|⁻¹)"
)
"""What makes a header one of things per time, whatever else it says: "tokens_per_s", "ops/ms", "GB/s (time in s)"."""


def is_time(name: str) -> bool:
    """Return whether a column holds times by its name, with or without a unit; "S" is a length."""
    words = set(_letters(name))
    if words & {*_NO_TIMES, *THROUGHPUTS} or _RATE.search(name.lower()) or name.strip() == "S":
        return False
    return bool(words & _TIMES) or unit_of(name) is not None


_ASIDE = frozenset(("compile", "compilation", "timestamp", "timeout", "start", "warmup", "tuning", "overhead"))
"""Words of a time that is not how long a kernel ran."""


def is_secondary(name: str) -> bool:
    """Return whether a time is not the one to compare: how it varies or changed, of something else, or of many runs."""
    said = {*words_of(name)}
    many = re.search(r"(?i)(?:/|per)[\s_]*\d", name)
    return bool(said & {*SPREADS, *CHANGES, *ERRORS, *UNTIMED, *_ASIDE} or many or said == {"s"})


def _letters(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-zµμ]+", name.lower()) if word]

"""The figures of the docs that follow from stored results: python docs/stored_figures.py prints them.

A page names what it says below `<!-- figures: FUNCTION ARGUMENTS -->`, up to the next such line or heading. Each text
that the function yields stands there word for word. RUN is a folder of docs/results, or `ONE+ANOTHER`, parts of one
sweep; PAIR is `PROVIDER/OTHER`. A ratio is the geometric mean, over the cells that both have, of the time of OTHER over
that of PROVIDER.
"""

import json
import re
import shlex
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rooflens.analysis.frames.coordinates import COORDINATES
from rooflens.analysis.frames.deciding import deciding
from rooflens.analysis.frames.load import RunData, load_run
from rooflens.analysis.roofline.bounds import Bound
from rooflens.analysis.run.pipeline import placed
from rooflens.analysis.run.summarize import summarize
from rooflens.kernels import registry
from rooflens.kernels.identity import code_of, identity
from rooflens.plugins.dispatch.study import study
from rooflens.plugins.isa.decoding import decode_seconds
from rooflens.shapes.device import spec

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
PAGES = sorted((ROOT / "README.md", *(ROOT / "docs").glob("*.md"), RESULTS / "README.md"))

EVENT, EARLIER, DISTURBED = "event timer", "earlier kernel", "disturbed"
"""What a page says of figures that are not what a run would give today; the test looks for these words."""


class Named(NamedTuple):
    """A function and its arguments as a page names them, and the text below."""

    page: Path
    function: str
    arguments: tuple[str, ...]
    text: str

    def figures(self) -> Iterator[str]:
        """Compute what the text has to say."""
        return FUNCTIONS[self.function](*self.arguments)

    def marks(self) -> frozenset[str]:
        """Return what the text has to say of the runs and providers of its figures."""
        runs = [one for one in self.arguments if (RESULTS / one.split("+")[0] / "run.json").is_file()]
        providers = {one for pair in self.arguments if pair not in runs for one in pair.split("/")} or {""}
        return frozenset().union(*(marks(part, one) for run in runs for part in run.split("+") for one in providers))


def named_figures() -> Iterator[Named]:
    """Yield what the pages name."""
    for page in PAGES:
        for name, text in re.findall(
            r"<!-- figures: (.*?) -->\n(.*?)(?=\n#|\n<!-- figures:|\Z)", page.read_text("utf-8"), re.S
        ):
            function, *arguments = shlex.split(name)
            yield Named(page, function, tuple(arguments), text)


@cache
def _summary(run: str) -> pd.DataFrame:
    return summarize(load_run(RESULTS / run))


def cells_of(run: str, provider: str = "") -> pd.DataFrame:
    """Cells of a RUN, all or those of one provider, whose times may decide something."""
    cells = pd.concat([deciding(_summary(part)) for part in run.split("+")])
    return cells[cells["provider"] == provider] if provider else cells


def marks(run: str, provider: str = "") -> frozenset[str]:
    """What a page has to say of figures of a stored run, or of one provider in it."""
    return frozenset().union(*(found for one, found in _marks(run).items() if provider in ("", one)))


@cache
def _marks(name: str) -> dict[str, set[str]]:
    """By provider: another timer than the default, another identity than the present kernels have, disturbed cells."""
    run = load_run(RESULTS / name)
    cells = _summary(name).query("verdict == 'passed'")
    timer, disturbed = cells["timer"] != default_timer(run), cells["disturbed"] != ""
    marked = {EVENT: timer, DISTURBED: disturbed, EARLIER: expired(run, cells)}
    return {
        provider: {word for word, holds in marked.items() if holds[part.index].any()}
        for provider, part in cells.groupby("provider")
    }


def default_timer(run: RunData) -> str:
    """Timer that a run on this device takes today."""
    return "host" if run.device.is_cpu else "profiler"


def expired(run: RunData, cells: pd.DataFrame) -> "pd.Series[bool]":
    """Tell which of `cells`, passed ones of `summarize`, have another identity than the present kernels of rooflens."""
    columns = ["provider", "timer", "cold_by", "config", "kernels", "identity"]
    kinds = cells[columns].drop_duplicates()
    shipped = registry.load([one for one in kinds["provider"].unique() if one in registry.BUILTIN])
    codes = {one: code_of(provider) for one, provider in shipped.items()}

    def is_expired(row: Mapping[Hashable, Any]) -> bool:
        if (provider := row["provider"]) not in codes:
            return False
        kernels, role = json.loads(row["kernels"] or "[]"), shipped[provider].role
        launched = codes[provider].launched(kernels, role, not run.device.is_cpu, run.manifest.environment)
        now = identity(launched, {**row, "config": json.loads(row["config"] or "{}")}, run.device)
        return bool(row["identity"] != now)

    found = [is_expired(row) for row in kinds.to_dict("records")]
    return cells[columns].merge(kinds.assign(expired=found), how="left")["expired"].set_axis(cells.index).astype(bool)


def runs_in(text: str) -> Iterator[str]:
    """Yield the stored runs that a text names."""
    for folder in sorted(path.parent.relative_to(RESULTS).as_posix() for path in RESULTS.rglob("run.json")):
        if re.search(rf"(?<![\w-]){re.escape(folder)}(?![\w-]|/[\w-]+\.(?:txt|csv))", text):
            yield folder


def printed(file: str, pattern: str) -> Iterator[str]:
    """Yield the lines of a stored file in which a pattern is found."""
    yield from (line.rstrip() for line in (RESULTS / file).read_text("utf-8").splitlines() if re.search(pattern, line))


def by_m(run: str, *pairs: str) -> Iterator[str]:
    """Yield a row per PAIR: the ratio at each M."""
    for pair in pairs:
        yield _row(_over(pair), *_means_by_m(_ratios(run, pair)))


def speed(run: str, *pairs: str) -> Iterator[str]:
    """Yield the ratio of each PAIR, with its range and the number of cells."""
    for pair in pairs:
        ratios = _ratios(run, pair)
        yield f"{_over(pair)}: {_mean(ratios):.2f}× ({ratios.min():.2f} to {ratios.max():.2f}, {len(ratios)} cells)"


def schemes(run: str, pair: str) -> Iterator[str]:
    """Yield a row per scheme and dtype of a run: the ratio at each M, and the least."""
    for (scheme, dtype), ratios in _ratios(run, pair).groupby(["scheme", "dtype"]):
        yield _row(scheme, dtype, *_means_by_m(ratios), f"{ratios.min():.2f}")


def reads(run: str, provider: str) -> Iterator[str]:
    """Yield the shares of the measured read bandwidth at M = 1, by the size of the weights."""
    cells, bandwidth = cells_of(run, provider).query("M == 1"), _limit(run, ceiling="bandwidth", pattern="read")
    shares, size = cells["bandwidth_bytes_per_s"] / bandwidth, cells["compulsory_bytes"]
    large, medium = (_percent(_mean(shares[size.between(*ends)])) for ends in ((32e6, np.inf), (8e6, 32e6)))
    yield f"{large} of the measured read bandwidth where weights take 32 MB and more, {medium} from 8 to 32 MB"


def rates(run: str, *providers: str) -> Iterator[str]:
    """Yield the highest rate of each provider."""
    for provider in providers:
        yield f"`{provider}` {cells_of(run, provider)['flops_per_s'].max() / 1e12:.0f} TFLOPS"


def cpu(run: str, provider: str) -> Iterator[str]:
    """Yield what a kernel for CPUs reaches on 4096 x 4096, of what was measured."""
    cells = cells_of(run, provider).query("N == 4096 and K == 4096").groupby("M").median(numeric_only=True)
    read, peak = _limit(run, ceiling="bandwidth", pattern="read"), _limit(run, ceiling="peak", dtype="bf16")
    reached, rate = cells["bandwidth_bytes_per_s"][1], cells["flops_per_s"][64]
    share = _percent(reached / read)
    yield f"{reached / 1e9:.0f} GB/s of compulsory bytes at M = 1, {share} of the measured read bandwidth"
    yield f"{rate / 1e12:.2f} TFLOPS at M = 64, of a measured bf16 GEMM peak of {peak / 1e12:.2f}"


def sharing(file: str) -> Iterator[str]:
    """Yield how many launches differed from the first, or had NaN, beside other processes."""
    rows = pd.read_csv(RESULTS / file)
    own = rows[rows["provider"] == "cuda_fp8"].groupby("others")[["different", "launches"]].sum()
    yield " and ".join(
        f"{own['different'][others]} of {own['launches'][others]:,} launches {where}"
        for others, where in ((0, "alone"), (3, "beside three others"))
    )
    triton = (
        rows.query("provider != 'cuda_fp8' and N == 65664").groupby(["device", "others"])[["nan", "launches"]].sum()
    )
    for device, others, where in (("H200", 3, "on the H200"), ("H200", 0, "alone"), ("H100", 3, "on an H100")):
        nan, launches = triton.loc[f"NVIDIA {device}", others]
        yield f"{nan:,} of {launches:,} {where}"


def unexplained(*runs: str) -> Iterator[str]:
    """Yield a row per run: its cells, the shares that no limit explains without and with schedules of machine code."""
    for name in runs:
        run, cells = load_run(RESULTS / name), _summary(name)
        before = cells.assign(schedule_clocks=np.nan, pipe_clocks=np.nan, kernels_s=np.nan, kernels="")
        classes = [placed(run, frame)[0]["bound_class"] for frame in (before, cells)]
        known = classes[1] != ""
        yield _row(f"`{name}`", known.sum(), *(_percent((one[known] == Bound.UNEXPLAINED).mean()) for one in classes))


def decoding(*runs: str) -> Iterator[str]:
    """Yield how far cells are above the time that decoding takes at least by `rooflens isa`'s rates."""
    cells = pd.concat(map(cells_of, runs))
    times = cells["time_s"] / decode_seconds(cells, spec("NVIDIA H200 SXM"))
    yield f"{times.count()} cells, the nearest {times.min():.2f}×"


def binaries(file: str) -> Iterator[str]:
    """Yield how many binaries of each Triton kernel compile for AMD GPUs, and which providers launch the same ones."""
    table = pd.read_csv(RESULTS / file).query("verdict != 'unsupported'")
    found = table.drop_duplicates(["arch", "provider", "config", "kernel", "specialization", "code"])
    passed = (found["verdict"] == "passed").groupby([found["provider"], found["arch"]], sort=False)
    texts = passed.sum().astype(str) + " of " + passed.size().astype(str)
    for provider, counts in texts.unstack("arch", fill_value="–").iterrows():
        yield _row(f"`{provider}`", *counts)
    launched = table.groupby(["scheme", "M", "arch", "provider"], sort=False)["code"].agg(frozenset).unstack("provider")
    for one, other in combinations([name for name in launched if not name.startswith("dispatch_")], 2):
        both = launched[[one, other]].dropna()
        same = both.index[both[one] == both[other]].to_frame(index=False)
        places = same.groupby("M")["arch"].agg(lambda where: ", ".join(dict.fromkeys(where)))
        for place, rows in places.groupby(places):
            yield f"`{one}` and `{other}` at M = {', '.join(map(str, rows.index))} on {place}"


def dispatch(run: str) -> Iterator[str]:
    """Yield the extra time over the best kernel of each GEMM that policies of `rooflens dispatch` cost."""
    found = study(load_run(RESULTS / run))
    always, threshold, table = (found.of(name) for name in ("always dequant_blas", "threshold", "table"))
    scores = (always.in_sample, threshold.in_sample, table.in_sample, table.held_out["shape"])
    costs = [100 * np.expm1(score.mean) for score in scores if score]
    yield (
        f"{len(found.timings.cases)} GEMMs: always `dequant_blas` costs {costs[0]:.1f} % over the best kernel, one "
        f"threshold in M {costs[1]:.1f} %, the table {costs[2]:.2f} % ({costs[3]:.1f} % on shapes that it has not seen)"
    )


FUNCTIONS: dict[str, Callable[..., Iterator[str]]] = {
    function.__name__: function
    for function in (
        binaries,
        by_m,
        cpu,
        decoding,
        dispatch,
        printed,
        rates,
        reads,
        schemes,
        sharing,
        speed,
        unexplained,
    )
}


def _ratios(run: str, pair: str) -> "pd.Series[float]":
    """Ratios of a PAIR by problem."""
    provider, other = pair.split("/")
    seconds = cells_of(run).pivot(index=[*COORDINATES], columns="provider", values="time_s")
    return (seconds[other] / seconds[provider]).dropna()


def _limit(run: str, **columns: str) -> float:
    """Return the one measured limit of the memory or the arithmetic of a run, in byte/s or FLOP/s."""
    rows = load_run(RESULTS / run).ceilings
    rows = rows[(rows["kind"] == "measured") & rows["level"].isin(("", "dram"))]
    return float(rows.loc[(rows[[*columns]] == pd.Series(columns)).all(axis=1), "value"].item())


def _over(pair: str) -> str:
    return " over ".join(f"`{name}`" for name in pair.split("/"))


def _mean(ratios: "pd.Series[float]") -> float:
    return float(np.exp(np.log(ratios).mean()))


def _means_by_m(ratios: "pd.Series[float]") -> list[str]:
    return [f"{_mean(part):.2f}" for _, part in ratios.groupby(level="M")]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    for named in named_figures():
        print(f"{named.page.relative_to(ROOT)}: {named.function} {' '.join(named.arguments)}")
        print("\n".join(f"    {figure}" for figure in named.figures()))

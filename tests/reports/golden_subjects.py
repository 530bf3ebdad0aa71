"""What the golden files are of: a small planted run and two versions of one, and each format as text that keeps."""

import re
from html import unescape
from pathlib import Path
from typing import Any

from rooflens.analysis.frames.load import load_run
from rooflens.reports.model import Report
from rooflens.reports.render import html, json_form, markdown, text

from .planted import report_by, synthetic

SHAPES = (("toy", "up", 512, 2048), ("toy", "down", 2048, 512), ("large", "square", 4096, 4096))
PROVIDERS = ("simt_4bit", "dequant_blas", "blas")
STEP = 1e-9
"""Times are whole nanoseconds, so that the last digit of a logarithm on another machine changes none."""

FORMATS = ("md", "txt", "json", "page.txt")


def write_runs(folder: Path) -> None:
    """Write the run, and base and head of the comparison."""
    usual = {"shapes": SHAPES, "machine": synthetic.H200, "samples": 5, "quantum_s": STEP, "providers": PROVIDERS}
    times = synthetic.modelled_latency(synthetic.H200)
    synthetic.write_run(
        folder / "toy",
        Ms=(1, 16, 256),
        rounds=5,
        failures=lambda cell: (
            ("oom", "3 GiB asked") if (cell.provider, cell.layer, cell.M) == ("blas", "square", 256) else None
        ),
        **usual,
    )
    synthetic.write_run(folder / "base", Ms=(1, 256), rounds=4, seed=1, **usual)
    synthetic.write_run(
        folder / "head",
        Ms=(1, 256),
        rounds=4,
        seed=2,
        latency=lambda cell: times(cell) * (0.8 if (cell.provider, cell.M) == ("simt_4bit", 1) else 1.0),
        failures=lambda cell: ("incorrect", "SNR 3 dB") if (cell.provider, cell.layer) == ("blas", "down") else None,
        **usual,
    )


def report_of(folder: Path, preset: str) -> Report:
    """Build the report of a preset from what `write_runs` wrote."""
    toy, *versions = (load_run(folder / name) for name in ("toy", "base", "head"))
    return report_by(preset, toy, versions, [toy, *versions])


def rendered(report: Report, form: str) -> str:
    """Render `report` in a format as the golden files hold it."""
    renderers = {
        "md": lambda: markdown.render(report, limit=10**9).text,
        "txt": lambda: text.render(report),
        "json": lambda: json_form.render(report),
        "page.txt": lambda: page_text(html.render(report)),
    }
    return kept(renderers[form]())


def kept(rendered: str) -> str:
    """Take out what changes without the report changing: hashes, the version."""
    hashes = r"(?<![\w.])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{12,64}\b"
    without_hashes = re.sub(hashes, lambda found: "0" * len(found[0]), rendered)
    return re.sub(r"rooflens \d+\.\d+\.\d+[\w.+-]*", "rooflens VERSION", without_hashes)


BLOCKS = r"title|h[1-5]|p|li|dt|tr|summary|pre|figcaption|div|section|details|caption"


def page_text(page: str) -> str:
    """Text of a page as a reader meets it, without its drawings: a line per block, cells of a row side by side."""
    bare = re.sub(r"<(style|script|svg)\b.*?</\1>", "", page.replace("\n", " "))
    lines = re.sub(rf"</?(?:{BLOCKS})\b[^>]*>", "\n", re.sub(r"<(?:th|td|dd)\b[^>]*>", " | ", bare))
    told = (" ".join(unescape(re.sub(r"<[^>]*>", "", line)).split()) for line in lines.split("\n"))
    return "\n".join(line for line in told if line) + "\n"


def differences(found: Any, golden: Any, place: str = "") -> list[str]:
    """Where two JSON trees differ; numbers may by the rounding of another machine."""
    if isinstance(found, float) and isinstance(golden, float | int):
        alike = abs(found - golden) <= 1e-6 * max(abs(found), abs(golden)) + 1e-12
        return [] if alike else [f"{place}: {found}, {golden}"]
    if isinstance(found, dict) and isinstance(golden, dict):
        if list(found) != list(golden):
            return [f"{place}: keys {list(found)}, {list(golden)}"]
        return [one for key in found for one in differences(found[key], golden[key], f"{place}/{key}")]
    if isinstance(found, list) and isinstance(golden, list):
        if len(found) != len(golden):
            return [f"{place}: {len(found)} and {len(golden)} items"]
        pairs = enumerate(zip(found, golden, strict=True))
        return [one for number, (a, b) in pairs for one in differences(a, b, f"{place}/{number}")]
    return [] if found == golden else [f"{place}: {found!r}, {golden!r}"]

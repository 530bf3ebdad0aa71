"""What a run compares: as the reader says, as its suite says, or what has a time."""

import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.analysis.run.question import compare_with, with_times
from rooflens.shapes.errors import UsageError

from ..synthetic import write_run


def loaded(tmp_path, **options):
    return load_run(write_run(tmp_path / "run", Ms=(1,), rounds=2, samples=2, **options))


def failing(*names):
    return {"failures": lambda cell: ("oom", "no memory") if cell.provider in names else None}


PROVIDERS = ("dequant_blas", "simt_4bit", "mma_4bit", "bitsandbytes_gemm", "blas")


@pytest.mark.parametrize(
    ("options", "baseline", "challengers", "remarks"),
    [
        ({}, "dequant_blas", ("simt_4bit",), []),
        ({"challengers": ()}, "dequant_blas", ("simt_4bit", "mma_4bit"), []),
        (failing("dequant_blas"), "bitsandbytes_gemm", ("simt_4bit",), ["the baseline dequant_blas has no time here"]),
        (failing("dequant_blas", "bitsandbytes_gemm"), "blas", ("simt_4bit",), ["ratios are over blas"]),
        (
            {"providers": ("mma_4bit", "gemv_4bit"), "challengers": ()},
            "dequant_blas",
            ("mma_4bit", "gemv_4bit"),
            ["choose one of mma_4bit, gemv_4bit with --baseline"],
        ),
        (failing("simt_4bit"), "dequant_blas", ("mma_4bit",), ["no challenger (simt_4bit) has a time here"]),
        (
            failing("dequant_blas", "simt_4bit", "bitsandbytes_gemm"),
            "blas",
            ("mma_4bit",),
            ["compared instead: mma_4bit", "ratios are over blas"],
        ),
        (failing(*PROVIDERS), "dequant_blas", ("simt_4bit",), []),
    ],
)
def test_what_has_a_time_stands_in_and_the_run_says_so(tmp_path, options, baseline, challengers, remarks):
    run = with_times(loaded(tmp_path, **{"providers": PROVIDERS} | options))
    assert (run.baseline, run.challengers) == (baseline, challengers)
    assert len(run.replaced) == len(remarks)
    assert all(words in told for words, told in zip(remarks, run.replaced, strict=True))
    assert analyze(run).warnings[: len(remarks)] == run.replaced


def test_the_reader_may_name_a_reference_and_the_suite_may_not(tmp_path):
    run = loaded(tmp_path, providers=PROVIDERS, challengers=("blas", "mma_4bit"))
    assert run.challengers == ("mma_4bit",)
    assert compare_with(run, challengers=("blas",)).challengers == ("blas",)
    assert compare_with(run, "bitsandbytes_gemm").baseline == "bitsandbytes_gemm"
    assert compare_with(run).challengers == ("mma_4bit",)


@pytest.mark.parametrize(
    ("baseline", "challengers", "words"),
    [
        ("mma_4bits", (), "unknown provider 'mma_4bits': did you mean mma_4bit"),
        ("", ("zebra",), "dequant_blas, simt_4bit, mma_4bit, bitsandbytes_gemm, blas"),
        ("", ("dequant_blas",), "it is the baseline of run; name another one with --baseline"),
    ],
)
def test_names_that_cannot_be_compared(tmp_path, baseline, challengers, words):
    with pytest.raises(UsageError, match=r"^(unknown|--challenger)") as caught:
        compare_with(loaded(tmp_path, providers=PROVIDERS), baseline, challengers)
    assert words in str(caught.value)

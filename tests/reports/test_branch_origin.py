"""Where the report on two versions comes from: commits, commands, searches and compiled code."""

import json
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from rooflens.analysis.comparison.effects import Order
from rooflens.analysis.comparison.identity import Identity, Version, identity_of
from rooflens.analysis.comparison.result import Side, compare_runs
from rooflens.analysis.frames.load import load_run
from rooflens.reports.build import build_comparison
from rooflens.reports.render import html
from rooflens.reports.sections.comparison.tried import tried
from rooflens.shapes.run_folder.manifest import ComparisonState, Manifest, StoredRefinement
from rooflens.shapes.run_folder.retries import Retry

from .branches import ROW, codes, digest_of, exactly, gain, report_of, result_of, table_of, training
from .planted import all_text, tables, texts

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_identity_of_commits_with_their_files():
    told = Identity(
        Version("main", "06b8d3f" + "0" * 33, "Add a format"),
        Version("dev/fast", "4b1402d" + "1" * 33, "opt: faster | <b>"),
        3,
        (("a.py", 1, 2), ("kernels/b.py", 450, 27), ("docs/x.png", None, None)),
        ("rooflens", "compare", "--providers", "a.py"),
    )
    report = report_of(table_of([ROW]), identity=told)
    facts = {line[0]: line[1] for line in texts(tables(report)["compared-identity"])}
    assert facts["branch"] == "dev/fast"
    assert facts["base"] == "main @ 06b8d3f00000 (Add a format)"
    assert facts["head"] == "4b1402d11111 (opt: faster | <b>)"
    assert facts["changed"] == "3 files, +451 / −29 lines"
    assert texts(tables(report)["compared-files"])[1:] == [
        ["kernels/b.py", "+450", "−27", "source"],
        ["a.py", "+1", "−2", "providers of this comparison"],
        ["docs/x.png", "binary", "", "documentation"],
    ]
    assert "06b8d3f00000 -> 4b1402d11111" in digest_of(report)
    assert "<b>" not in html.render(report).replace("<b>How", "").split("<main")[1].split("compared-files")[0]


def test_the_commands_that_measured_stand_in_the_report():
    state = ComparisonState.glance(
        {
            "commits": {"base": "06b8d3f" + "0" * 33, "head": "4b1402d" + "1" * 33},
            "suite": "llm4bit",
            "files": ["bench/kernels.py"],
            "options": ["--axis", "M=1,16", "--filter", "N == 512"],
            "setup": "pip install -e .",
            "rounds": 8,
        }
    )
    (command, _) = sorted(codes(report_of(table_of([ROW]), identity=identity_of(state))), key=lambda code: code.digest)
    expected = "rooflens compare --git 06b8d3f00000..4b1402d11111 llm4bit --providers bench/kernels.py --axis M=1,16 "
    expected += "--filter 'N == 512' --setup 'pip install -e .' --rounds 8"
    assert " ".join(command.text.replace("\\\n", " ").split()) == expected
    assert [code.digest for code in codes(report_of(table_of([ROW])))] == [True]  # tables do not tell


def test_costs_of_searches_by_provider_and_pass():
    def searched(candidates, seconds):
        return pd.DataFrame(
            [
                {"provider": "mine", "pass": pass_, "cell_id": f"{pass_}{cell}", "search": 0, "candidates": number,
                 "search_s": seconds}
                for pass_, number in candidates.items() for cell in range(3) for _ in range(number)
            ]
        )  # fmt: skip

    searches = {"base": searched({"fwd": 32, "bwd": 32}, 250.0), "head": searched({"fwd": 96, "bwd": 144}, 1200.0)}
    report = report_of(table_of([ROW]), searches=searches)
    lines = texts(tables(report)["compared-tuning"])[1:]
    assert lines == [
        ["mine", "fwd", "3 → 3", "32 → 96 (3.00×)", "750.000 s → 3600.000 s (4.80×)"],
        ["mine", "bwd", "3 → 3", "32 → 144 (4.50×)", "750.000 s → 3600.000 s (4.80×)"],
    ]
    assert "All searches together: 1500.000 s → 7200.000 s (4.80×)." in all_text(report)
    only_head = report_of(table_of([ROW]), searches={"head": searches["head"]})
    assert texts(tables(only_head)["compared-tuning"])[1][3:] == ["none → 96", "none → 3600.000 s"]


def test_evidence_of_code_and_settings():
    planted = training(exactly, rounds=4, noise=0.001)
    for side in ("base", "head"):
        stages = [3 if side == "head" and number % 4 == 0 else 2 for number in range(len(planted.cases))]
        planted.cases[f"{side}_config"] = [json.dumps({"num_stages": stage, "inner": {"BN": 64}}) for stage in stages]
        changes = planted.cases["pass"] == "bwd"
        planted.cases[f"{side}_artifact"] = [f"k{side if change else ''}" for change in changes]
    report = report_of(planted)
    code = texts(tables(report)["compared-binaries"])[1:]
    assert code[0][:5] == ["mine", "fwd", "84 / 84", "0 / 84", "0 / 84"]
    assert code[1][:5] == ["mine", "bwd", "0 / 84", "84 / 84", "0 / 84"]
    chosen = texts(tables(report)["compared-settings"])[1:]
    assert ["num_stages=3", "mine", "fwd", "0 / 84 (0%)", "42 / 84 (50%)"] in chosen
    others = texts(tables(report)["compared-choices-table"])[1:]
    assert [line[-1] for line in others] == ["num_stages=2 → num_stages=3"] * 42
    assert "Controls: 42 cases have the same compiled code and configuration" in all_text(report)


def test_what_head_cannot_do_is_listed_with_the_next_step_and_left_open():
    planted = training(lambda shape, M, pass_: gain(-0.1 if shape.N == 4096 and pass_ == "fwd" else 0.1), noise=0.001)
    wrong = planted.cases["model"] == "Mistral-7B"
    planted.cases.loc[wrong, ["head_verdict", "head_reason"]] = ["incorrect", "SNR 3 dB"]
    chosen = planted.cases["M"] == 8192
    planted.cases.loc[chosen, "head_config"] = "BLOCK_M=64"
    report = report_of(planted)
    fails, _, slower = texts(tables(report)["compared-limitations-table"])[1:]
    count = int((wrong & (planted.cases["pass"] == "fwd")).sum())
    assert (fails[0], fails[2]) == (f"mine, fwd: fails (incorrect) at {count} cases that passed in base", "SNR 3 dB")
    assert fails[1].startswith(f"{count} cases: TestID ")
    assert fails[3].startswith("do not use it there")
    assert slower[0] == "mine, fwd: verified slower than base"
    assert slower[2].startswith("another configuration, kernel or dispatch in ")
    header, base, head = texts(tables(report)["compared-tally"])
    assert base[1:] == ["168", "168", "0", "84", "84"]
    assert head[1:] == ["168", str(168 - 2 * count), str(2 * count), "84", str(84 - count)]
    assert header[-2:] == ["problems", "problems that pass everywhere"]
    (items,) = (block for part in report.walk() if part.id == "compared-open-items" for block in part.blocks)
    marked = dict(zip(items.items, items.checked, strict=True))
    assert marked["both versions were measured in turn"]
    for what, _, _, action in (fails, slower):
        assert not marked[f"{what}: {action}"]


def test_what_was_measured_again_and_added_is_named():
    assert tried(result_of(training(exactly, rounds=4))) is None
    added = StoredRefinement(of="crossover", challenger="mine", added=[{}, {}])
    place = ("llm4bit", "a model: b", "gemm", "fwd", 1, "mine", "cold")
    reasons = ("no luck", "another", "no luck")
    again = tuple(Retry.of(number, map(str, place), "runtime_error", why) for number, why in enumerate(reasons))
    run = SimpleNamespace(manifest=Manifest(refine=added), retried=again)
    (found,) = tried(result_of(training(exactly, rounds=4), runs={"head": run})).blocks
    assert found.items == (
        "head, mine: runtime error in 3 rounds, measured again (--retry), most often: no luck",
        "head: --refine crossover of mine added 2 M at single shapes, not complete",
    )


def test_arithmetic_means_are_there_where_they_are_asked_for():
    rows = [ROW | {"M": m, "base_s": base, "head_s": head} for m, base, head in ((16, 2e-9, 1e-9), (32, 1e-9, 1e-9))]
    result = result_of(table_of(rows))
    assert "compared-arithmetic" not in tables(build_comparison(result))
    header, line = texts(tables(build_comparison(result, arithmetic=True))["compared-arithmetic"])
    assert header[1:4] == ["base", "head", "difference"]
    rates = [2 * m * 64 * 64 / seconds / 1e12 for m, seconds in ((16, 2e-9), (32, 1e-9), (16, 1e-9), (32, 1e-9))]
    base, head = sum(rates[:2]) / 2, sum(rates[2:]) / 2
    assert [float(text) for text in line[1:4]] == pytest.approx([base, head, head - base], rel=2e-3)
    assert line[4] == "2"


def test_an_adapter_is_not_out_of_scope_because_it_is_the_same():
    """The change is to the kernels that it calls, which its hash does not cover."""
    folder = RESULTS / "upstream-primus-turbo"
    runs = {name: load_run(folder / name) for name in ("base", "head")}
    base, head = ((Side(name, name), run) for name, run in runs.items())
    told = all_text(build_comparison(compare_runs(base, head, Order.SEQUENTIAL)))
    assert "in scope where the project's kernels differ: primus_turbo_gemm" in told
    assert "out of scope" not in told

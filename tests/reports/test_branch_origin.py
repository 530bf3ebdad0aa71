"""Where the report on two versions comes from: commits, commands, searches and compiled code."""

import json

import pandas as pd
from rooflens.analysis.comparison.identity import ChangedFile, Identity, Version, identity_of
from rooflens.reports.render import html
from rooflens.shapes.run_folder.manifest import ComparisonState

from .branches import ROW, codes, digest_of, exactly, report_of, table_of, training
from .planted import all_text, tables, texts


def test_identity_of_commits_with_their_files():
    told = Identity(
        Version("main", "06b8d3f" + "0" * 33, "Add a format"),
        Version("dev/fast", "4b1402d" + "1" * 33, "opt: faster | <b>"),
        3,
        (ChangedFile("a.py", 1, 2), ChangedFile("kernels/b.py", 450, 27), ChangedFile("x.png", None, None)),
    )
    report = report_of(table_of([ROW]), identity=told)
    facts = {line[0]: line[1] for line in texts(tables(report)["compared-identity"])}
    assert facts["branch"] == "dev/fast"
    assert facts["base"] == "main @ 06b8d3f00000 (Add a format)"
    assert facts["head"] == "4b1402d11111 (opt: faster | <b>)"
    assert facts["changed"] == "3 files, +451 / −29 lines"
    assert texts(tables(report)["compared-files"])[1:] == [
        ["kernels/b.py", "+450", "−27"],
        ["a.py", "+1", "−2"],
        ["x.png", "binary", ""],
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
    assert command.text.split() == [
        "rooflens",
        "compare",
        "--git",
        "06b8d3f00000..4b1402d11111",
        "llm4bit",
        "--providers",
        "bench/kernels.py",
        "--axis",
        "M=1,16",
        "--filter",
        "'N",
        "==",
        "512'",
        "--setup",
        "'pip",
        "install",
        "-e",
        ".'",
        "--rounds",
        "8",
    ]
    assert [code.digest for code in codes(report_of(table_of([ROW])))] == [True]  # tables do not tell


def test_what_is_unknown_is_left_out():
    facts = {line[0] for line in texts(tables(report_of(table_of([ROW])))["compared-identity"])}
    assert facts.isdisjoint({"branch", "commits", "changed", "suite", "device"})


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
    flipped = [number for number in range(168) if number % 4 == 0]
    assert sum(planted.cases["pass"].iloc[number] == "fwd" for number in flipped) == 42
    assert ["num_stages=3", "mine", "fwd", "0 / 84 (0%)", "42 / 84 (50%)"] in chosen
    assert not any("BN" in line[0] for line in chosen)  # chosen alike
    others = texts(tables(report)["compared-choices-table"])
    assert len(others) - 1 == 42
    assert {line[-1] for line in others[1:]} == {"num_stages=2 → num_stages=3"}
    assert "Controls: 42 cases have the same compiled code and configuration" in all_text(report)

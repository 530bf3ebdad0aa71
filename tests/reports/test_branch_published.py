"""The derived columns of a published branch report follow from its base and new values; what does not is listed.

Tables of AMD-AGI/Primus-Turbo pull request 339 and of its MI300X comment, as printed. Where ours differs in the last
digits, the printed number lies within what the rounding of the printed values allows, and is one of
`data/corrections/primus339.csv`.
"""

from pathlib import Path

import pytest
from rooflens.analysis.comparison.numbering import number_cases
from rooflens.analysis.comparison.parts import parts
from rooflens.analysis.imports.consistency import span
from rooflens.reports.render.plain import to_ascii
from rooflens.reports.sections.comparison import words

from ..csv_files import read_rows
from .branches import gain, report_of, result_of, table_of, training
from .planted import all_text, tables, texts
from .published import rows_of

CORRECTIONS = Path(__file__).parents[1] / "data" / "corrections" / "primus339.csv"


@pytest.fixture(scope="module")
def corrections():
    """(table, row, column) -> (printed, ours)."""
    rows = read_rows(CORRECTIONS)
    return {(one["table"], one["row"], one["column"]): (one["printed"], one["ours"]) for one in rows}


@pytest.fixture
def lists(monkeypatch):
    """The lists of a long comparison, although the printed tables are short."""
    monkeypatch.setattr(words, "FEW", 0)


def shown(cell):
    """A change of time as the document writes it, as a gain of throughput: "-2.83"."""
    return f"{100 * (1 / (1 + cell.value) - 1):+.2f}"


def agree(corrections, table, row, column, said, ours):
    """The document's number is ours, or one that is listed."""
    if said != ours:
        assert corrections[table, row, column] == (said, ours)
    return (table, row, column) if said != ours else None


def rates(row, base, head, products):
    """Seconds of base and head from printed TFLOPS."""
    flops = 2.0 * products * int(row["M"]) * int(row["N"]) * int(row["K"])
    return {"base_s": flops / float(row[base]) / 1e12, "head_s": flops / float(row[head]) / 1e12}


@pytest.mark.parametrize("table", ["best_movers", "smallest_gains"])
def test_gains_of_the_movers_follow_from_their_rates(table, corrections, lists):
    rows = rows_of(f"primus339_{table}")
    planted = [
        row | {"model": row["case"], "pass": "step"} | rates(row, "main_comb_tflops", "pr_comb_tflops", 3)
        for row in (*rows_of("primus339_best_movers"), *rows_of("primus339_smallest_gains"))
    ]
    lists = tables(report_of(table_of(planted)))
    found = {row[1].text: row for name in ("compared-movers", "compared-least") for row in lists[name].rows}
    used = set()
    for row in rows:
        *told, change = found[row["test_id"]][:7]
        case, _, M, size, base, head = (cell.text for cell in told)
        assert (case, M, size) == (f"{row['case']} gemm", row["M"], f"{row['N']}×{row['K']}")
        assert (base, head) == (row["main_comb_tflops"], row["pr_comb_tflops"])
        used.add(
            agree(
                corrections,
                f"primus339_{table}",
                row["test_id"],
                "delta_comb_pct",
                row["delta_comb_pct"],
                shown(change),
            )
        )
    listed = {key for key in corrections if key[0] == f"primus339_{table}"}
    assert used - {None} == listed  # no correction without a case


@pytest.mark.parametrize("name", ["aggregate", "commit_message_aggregate"])
def test_headline_and_digest_have_the_printed_means(name, corrections):
    rows = rows_of(f"primus339_{name}")
    head = next(column for column in rows[0] if column not in ("metric", "main_gmean_tflops", "delta_pct"))
    passes = {"forward": "fwd", "backward": "bwd", "combined-step": "step"}
    size = {"model": "one", "M": "8192", "N": "4096", "K": "4096"}
    products = {"fwd": 1, "bwd": 2, "step": 3}
    planted = [
        row | size | {"pass": (pass_ := passes[row["metric"].lower()])}
        | rates(row | size, "main_gmean_tflops", head, products[pass_])
        for row in rows
    ]  # fmt: skip
    report = report_of(table_of(planted))
    lines = {line[0].text: line for line in tables(report)["compared-means"].rows}
    (digest,) = (block.text for part in report.walk() if part.id == "compared-digest" for block in part.blocks)
    for row, one in zip(rows, planted, strict=True):
        _, base, new, change, *_ = lines[one["pass"]]
        assert (base.text, new.text) == (row["main_gmean_tflops"], row[head])
        agree(corrections, f"primus339_{name}", row["metric"], "delta_pct", row["delta_pct"], shown(change))
        assert f"{one['pass']:7} : {base.text} -> {new.text}  ({to_ascii(change.text)}), 1 case" in digest
    assert digest.isascii()


def test_models_have_the_printed_means_and_the_excluded_case(corrections):
    rows = {row["model"]: row for row in rows_of("primus339_per_model")}
    cases = training(lambda *_: 0.0, rounds=1, noise=0).cases
    problems = cases[cases["pass"] == "fwd"].assign(**{"pass": "step"}).to_dict("records")
    step = [
        problem | rates(problem | rows[problem["model"]], "main_comb_gmean_tflops", "pr_comb_gmean_tflops", 3)
        for problem in problems
    ]
    planted = table_of(step)
    failing = (planted.cases["M"] == 32768) & (planted.cases["N"] == 106496)
    planted.cases.loc[failing, "base_verdict"] = "incorrect"
    report = report_of(planted)
    found = tables(report)["compared-by-model"]
    for line, cells in zip(texts(found)[1:], found.rows, strict=True):
        row = rows[line[0]]
        assert line[2:5] == [row["n"], row["main_comb_gmean_tflops"], row["pr_comb_gmean_tflops"]]
        agree(corrections, "primus339_per_model", line[0], "delta_pct", row["delta_pct"], shown(cells[5]))
        assert cells[2].note == ("without TestID 47: fixed" if row["footnote"] else "")
    assert "1 problem did not pass in base but passed in head: TestID 47 (step)." in all_text(report)


@pytest.mark.parametrize(("name", "pass_"), [("forward", "fwd"), ("backward", "bwd")])
def test_the_printed_reductions_follow_from_the_times_and_the_gains_do_not(name, pass_, corrections, lists):
    """One of the document's two columns is of rounded times and the other is not: they contradict each other."""
    table = f"primus339_mi300x_top10_{name}"
    rows = rows_of(table)
    planted = [
        row
        | {"pass": pass_}
        | {f"{side}_s": float(row[f"{pass_}_{word}_ms"]) / 1e3 for side, word in (("base", "main"), ("head", "opt"))}
        for row in rows
    ]
    report = report_of(table_of(planted, step_s=1e-5))
    found = tables(report)["compared-cases"]
    changes, allowed = (texts(found)[0].index(one) for one in ("change of time", "what rounding allows"))
    lines = sorted(found.rows, key=lambda line: line[changes].value)
    assert [line[1].text for line in lines] == [row["test_id"] for row in rows]
    used = set()
    for line, row in zip(lines, rows, strict=True):
        assert f"{-100 * line[changes].value:+.2f}" == row["speedup_pct"]
        used.add(
            agree(corrections, table, row["test_id"], "tflops_gain_pct", row["tflops_gain_pct"], shown(line[changes]))
        )
        ends = (float(end.replace("−", "-").rstrip("%")) / 100 for end in line[allowed].text.strip("[]").split(", "))
        high, low = (100 * (1 / (1 + end) - 1) for end in ends)
        said = span(row["tflops_gain_pct"])
        assert low - 0.02 <= said.high
        assert said.low <= high + 0.02
    assert used - {None} == {key for key in corrections if key[0] == table}
    assert "None is verified" in all_text(report)


def test_a_mean_gain_is_never_less_than_the_mean_reduction(corrections):
    """Printed for Llama-3.1-8B: +1.28 % less time and +1.16 % more throughput, which no cases can have."""
    (row,) = (row for row in rows_of("primus339_mi300x_per_model") if row["model"] == "Llama-3.1-8B")
    assert float(row["forward_tflops_gain_pct"]) < float(row["forward_speedup_pct"])
    result = result_of(training(lambda shape, M, pass_: gain(0.05) if shape.N > 8192 else gain(-0.04), rounds=2))
    for part in parts(result):
        assert (1 / (1 + part.changes()) - 1).mean() > -part.changes().mean()
    assert ("primus339_mi300x_per_model", "Llama-3.1-8B", "forward_tflops_gain_pct") in corrections


def test_counts_in_sentences_and_tables_are_one(corrections):
    """The document counts 14 forward losses of 1 % or more in a table and 10 in its prose."""
    losing = [4, 78, 26, 74, 6, 8, 14, 49, 2, 62, 1, 3, 5, 7]
    shares = dict.fromkeys(losing[:5], -0.07) | dict.fromkeys(losing[5:10], -0.03) | dict.fromkeys(losing[10:], -0.015)
    planted = training(lambda shape, M, pass_: gain(0.2 if pass_ == "bwd" else 0.006), rounds=8, noise=0.0005)
    numbering = number_cases(planted.cases)
    for case, row in planted.cases.iterrows():
        if row["pass"] == "fwd" and (number := numbering[row]) in shares:
            mine = planted.rounds["case"] == case
            planted.rounds.loc[mine, "head_s"] = planted.rounds.loc[mine, "base_s"] / (1 + shares[number])
    report = report_of(planted)
    text = all_text(report)
    assert "14 cases lose 1% or more in fwd; all of them gain in fwd+bwd" in text
    assert "14 / 84 (14 verified) lose 1% or more" in text
    line = next(line for line in texts(tables(report)["compared-distribution"])[1:] if line[0] == "fwd")
    assert line[-2:] == ["14", "5"]
    assert len(tables(report)["compared-regressions"].rows) == 14  # every one is verified, however small
    assert corrections["primus339", "4.1", "net-negative forward shapes"] == ("10", "14")

"""The report on two versions of planted truth: every block by hand, and suites with little or nothing to say."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rooflens.analysis.comparison.decide import Word
from rooflens.analysis.comparison.effects import Order
from rooflens.reports.build import build_comparison
from rooflens.reports.figures.chart import Figure
from rooflens.reports.model import KeyNumbers, Table, Tone
from rooflens.reports.render import html, markdown

from ..analysis.compared import versions
from .branches import TRAINING, digest_of, exactly, gain, less, report_of, result_of, training
from .pages import Page, unfolded
from .planted import all_text, tables, texts


def rows_of(table):
    """Lines of a table by their first cell."""
    return {line[0]: line for line in texts(table)[1:]}


def cards(report):
    return {item.label: item for part in report.walk() for block in part.blocks if isinstance(block, KeyNumbers)
            for item in block.items}  # fmt: skip


def small(shape, M):
    return M == 4096


FORWARD, BACKWARD = 2 / 1400, 4 / 1000
"""Time of either pass per MNK, in 1e-12 s, from the planted rates."""

COMBINED = (FORWARD + BACKWARD) / (FORWARD / 0.99 + BACKWARD / 1.20) - 1
"""Gain of the sum of both passes."""


@pytest.fixture(scope="module")
def planted():
    """All 84 problems without noise; TestID 47 is wrong in base, TestID 43 gains least and TestID 64 most, backward."""

    def change(shape, M, pass_):
        if pass_ == "bwd" and (shape.model, shape.N, M) == ("Llama-3.1-405B", 106496, 16384):
            return gain(0.03)
        if pass_ == "bwd" and (shape.model, shape.K, M) == ("Qwen2.5-72B", 29568, 8192):
            return gain(0.30)
        return exactly(shape, M, pass_)

    found = training(change, noise=0.0)
    failing = (found.cases["N"] == 106496) & (found.cases["M"] == 32768)
    found.cases.loc[failing, "base_verdict"] = "incorrect"
    found.cases.loc[failing, "base_reason"] = "dA is NaN"
    found.cases.loc[failing, "base_time_s"] = math.nan
    return found


@pytest.fixture(scope="module")
def report(planted):
    return report_of(planted)


def test_means_are_of_what_both_versions_pass(report):
    lines = rows_of(tables(report)["compared-means"])
    assert lines["fwd"][1:4] == ["1400.0", "1386.0", less(-0.01)]
    assert lines["bwd"][1] == "1000.0"
    combined = tables(report)["compared-means"].rows[2]
    expected = 6 / (FORWARD + BACKWARD)  # TFLOPS
    assert lines["fwd+bwd"][1] == f"{expected:.1f}"
    exact = [COMBINED] * 81 + [
        (FORWARD + BACKWARD) / (FORWARD / 0.99 + BACKWARD / (1 + share)) - 1 for share in (0.03, 0.30)
    ]
    mean = math.exp(sum(map(math.log1p, exact)) / 83) - 1
    assert combined[3].value == pytest.approx(1 / (1 + mean) - 1, rel=1e-9)
    assert lines["fwd+bwd"][5] == "83"
    assert combined[5].note == "not in any mean, over all passes: 2 fixed"
    assert "6 M N K / (forward + backward)" in combined[0].note


def test_digest_and_cards_are_the_cells_of_the_headline(report):
    lines = rows_of(tables(report)["compared-means"])
    text = digest_of(report)
    assert len({line.index(":") for line in text.splitlines()[1:4]}) == 1  # columns of fixed width
    assert cards(report)["Change of time, fwd+bwd"].text == lines["fwd+bwd"][3]
    assert "2 fixed" in text.splitlines()[-1]


def test_the_distribution_is_of_the_times(report):
    found = {line[0]: line[1:] for line in texts(tables(report)["compared-distribution"])[1:]}
    cases, median, mean, p25, p75, least, most, *_ = found["bwd"]
    assert (cases, median, p25, p75, least, most) == ("83", *[less(0.2)] * 3, less(0.3), less(0.03))
    assert mean == f"{100 * ((81 / 1.2 + 1 / 1.03 + 1 / 1.3) / 83 - 1):.2f}%".replace("-", "−")
    assert found["fwd"][1] == less(-0.01)


def test_models_lose_the_excluded_case(report):
    table = tables(report)["compared-by-model"]
    lines = rows_of(table)
    assert [lines[name][2] for name in ("Llama-2-7B", "Llama-3.1-405B")] == ["12", "11"]
    assert {row[2].note for row in table.rows} == {"", "without TestID 47: fixed"}
    assert lines["Llama-2-7B"][5] == less(COMBINED)
    means = rows_of(tables(report)["compared-model-means-1"])
    header = texts(tables(report)["compared-model-means-1"])[0]
    assert header[2:] == [f"change, {name}" for name in ("fwd", "bwd", "fwd+bwd")]
    assert means["Mistral-7B"][3] == less(0.2)
    assert means["Llama-3.1-405B"][3] == f"{100 * ((10 / 1.2 + 1 / 1.03) / 11 - 1):.2f}%".replace("-", "−")


def test_movers_are_ranked_by_the_sum_with_their_numbers_of_the_suite(report):
    found = tables(report)
    first = texts(found["compared-movers"])[1]
    assert first[:4] == ["Qwen2.5-72B mlp_down", "64", "8192", "8192×29568"]
    least = texts(found["compared-least"])[1]
    assert least[:4] == ["Llama-3.1-405B mlp_gate_up", "43", "16384", "106496×16384"]
    assert (found["compared-least"].title, len(found["compared-least"].rows)) == ("Smallest gains", 5)
    assert found["compared-least"].reading.startswith("No case loses. The last five of 83 cases")
    saved = found["compared-saved"]
    times = [row[6].value for row in saved.rows[:-1]]
    assert times == sorted(times)
    assert saved.rows[0][1].value == 48  # the longest launch of those that gain 20 % backward
    total = saved.rows[-1]
    assert total[0].text == "all 83 cases"
    assert total[6].value == pytest.approx(total[5].value - total[4].value)


def test_what_became_right_is_shown_with_its_own_numbers(report):
    header, *lines = texts(tables(report)["compared-others"])
    assert [line[header.index("pass")] for line in lines] == ["fwd", "bwd", "fwd+bwd"]
    assert {line[1] for line in lines} == {"47"}
    assert lines[0][header.index("base") : header.index("reason") + 1] == ["incorrect", "passed", "dA is NaN"]
    assert [line[-1] for line in lines] == ["1386.0 TFLOPS", "1200.0 TFLOPS", "1256.2 TFLOPS"]
    assert f"{6 / (2 / 1386 + 4 / 1200):.1f}" == "1256.2"


def test_losses_are_tabled_when_verified_and_named_when_small():
    def change(shape, M, pass_):
        if pass_ == "bwd":
            return gain(0.2)
        return gain({4096: -0.07, 8192: -0.03}.get(M, 0.0) if shape.model == "Mistral-7B" else 0.0)

    report = report_of(training(change, rounds=1, noise=0.0))  # one round: nothing is verified
    table = tables(report)["compared-regressions"]
    assert [line[1] for line in texts(table)[1:]] == ["73", "74", "75", "76"]
    assert {line[-1] for line in texts(table)[1:]} == {"none"}
    text = all_text(report)
    assert "Nothing is verified to be slower. Of 252 passes and sums that are compared, 4 lose 5% or more" in text
    assert "fwd: 4 further cases lie between +2.5% and +5%, none of them verified: TestID 77, 78, 79, 80." in text
    sure = report_of(training(change, rounds=8, noise=0.0001))
    assert "8 passes of cases are verified to be slower" in all_text(sure)
    assert [line[-1] for line in texts(tables(sure)["compared-regressions"])[1:]] == ["fwd"] * 8
    assert "further case" not in all_text(sure)


@pytest.mark.parametrize(("slower", "sums"), [(0.05, {"slower": 1, "same": 1}), (None, {"inconclusive": 2})])
def test_a_sum_of_passes_is_counted_apart_and_judged_like_a_case(slower, sums):
    """Noise of opposite signs leaves the sum known where neither pass is; shared noise does not."""
    noise = 0.1 * np.array([1, -1, -1, 1] * 2)
    backward = [noise, noise] if slower is None else [-noise, -noise + 2 * slower]
    effects = np.log1p([noise, noise, *backward])
    found = result_of(versions(effects, **TRAINING, M=[1, 16, 1, 16], layer="q", pass_=["fwd", "fwd", "bwd", "bwd"]))
    assert found.count(Word.INCONCLUSIVE) == 4
    assert {word: count for word in Word if (count := found.count_sums(word))} == sums
    told, strict = ("" if error is None else str(error) for error in (found.error(), found.error(strict=True)))
    if slower:
        assert told == strict == "1 sum of fwd+bwd is verified to be slower"
    else:
        assert (told, strict) == ("", "4 cases and 2 sums of fwd+bwd are inconclusive: more --rounds would decide")


def everything(report):
    """Render in every format; return the page."""
    text = markdown.render(report).text
    assert not re.search(r"\b(nan|NaN|inf|None)\b(?! is verified)", text)
    return Page(html.render(report))


@pytest.mark.parametrize(
    ("name", "planted", "says"),
    [
        ("one round", lambda: training(exactly, rounds=1, keep=small), "No case is verified to have changed"),
        ("one model, one M", lambda: training(exactly, keep=lambda shape, M: shape.model == "Mistral-7B" and M == 4096),
         "one launch of every case"),
        ("all failed in head", lambda: training(exactly, head_verdict="oom", head_reason="out of memory", keep=small),
         "but not in head"),
        ("no FLOPs", lambda: versions(np_row(gain(0.1), 8), op="quantize", N=1, flops=0), ""),
        ("far slower", lambda: versions(np_row(math.log(5000), 8), **TRAINING), ""),
        ("far faster", lambda: versions(np_row(-math.log(5000), 8), **TRAINING), ""),
        ("no change at all", lambda: training(lambda *_: 0.0, noise=0.0), "No case is verified to have changed"),
        ("hostile names", lambda: training(exactly, rounds=2, provider="<script>|`*", layer=["a|b " * 90] * 168),
         "Ranked by"),
    ],
)  # fmt: skip
def test_odd_comparisons_have_a_readable_report(name, planted, says):
    report = report_of(planted())
    assert says in all_text(report), name
    page = everything(report)
    assert "<script>|" not in html.render(report)  # escaped where it is a name
    for table, rows in page.tables.items():
        assert {len(row) for row in rows} == {len(rows[0])}, table


def np_row(effect, rounds):
    """One case, its effect a hair apart from round to round."""
    return [[effect + 1e-4 * (number % 2) for number in range(rounds)]]


def test_many_groups_are_told_apart_and_not_averaged():
    planted = training(exactly, rounds=2, noise=0.0)
    frames, rounds = [planted.cases], [planted.rounds]
    for number, provider in enumerate(("a", "b", "c"), start=1):
        frames.append(planted.cases.assign(provider=provider))
        more = planted.rounds.assign(case=planted.rounds["case"] + number * len(planted.cases))
        rounds.append(more.assign(head_s=more["head_s"] * (1 + number / 10)))
    joined = type(planted)(pd.concat(frames, ignore_index=True), pd.concat(rounds, ignore_index=True), planted.order)
    report = report_of(joined)
    lines = texts(tables(report)["compared-means"])
    assert lines[0][:2] == ["provider", "pass"]
    assert len(lines) == 1 + 4 * 3
    found = {(line[0], line[1]): line[4] for line in lines[1:]}
    assert found["mine", "bwd"] == less(0.2)
    assert found["b", "bwd"] == "~0.00%"  # no change, and so none that is proven
    assert "The geometric means of 4 groups run from" in all_text(report)
    assert "Change of time, mine, fwd+bwd" not in cards(report)
    (figure,) = (block for part in report.walk() for block in part.blocks if isinstance(block, Figure) and block.bars)
    assert sorted(bar.label for bar in figure.bars) == [
        f"all of them, {name}, fwd+bwd" for name in ("a", "b", "c", "mine")
    ]


@pytest.mark.parametrize("order", [Order.INTERLEAVED, Order.SEQUENTIAL])
def test_one_case_has_one_number(order):
    """1.8 times as long, known to 15 % a round: +80 %, wherever and in whatever form it stands."""
    noise = np.array([-0.15, 0.02, 0.13, -0.01, 0.01])
    report = report_of(versions(0.588 + noise, order=order))
    every = tables(report)
    cases = every["compared-slowest"]
    of_it = pytest.approx(math.expm1(0.588))
    shown = [
        cards(report)["Change of time, fwd"].text,
        *(cell.text for cell in every["compared-means"].rows[0] if cell.value == of_it),
        cases.rows[0][texts(cases)[0].index("change of time")].text,
    ]
    assert set(shown) == {"+80%"}
    assert len(shown) == 3
    assert "(+80%)" in digest_of(report)


def test_what_is_undecided_looks_undecided():
    noisy = training(lambda shape, M, pass_: gain(0.02), noise=0.05)
    table = tables(report_of(noisy))["compared-movers"]
    header = texts(table)[0]
    change, verdict = next(i for i, name in enumerate(header) if name.startswith("change, ")), header.index("verdict")
    doubtful = [row for row in table.rows if row[verdict].text.startswith("inconclusive")]
    assert doubtful
    for row in table.rows:
        assert (row[change].tone is Tone.UNDECIDED) == (row in doubtful)
    for row in doubtful:  # an estimate has no more than two digits
        digits = re.fullmatch(r"inconclusive, would find ±([\d.]+)%", row[verdict].text)[1]
        assert len(digits.replace(".", "").lstrip("0")) <= 2


@pytest.mark.parametrize(("planted_gain", "proven"), [(0.0, False), (0.10, True)])
def test_a_mean_whose_interval_includes_no_change_is_marked_wherever_it_stands(planted_gain, proven):
    drift = np.repeat([0.02, -0.02], 4)  # by round: what the cases have in common does not average out
    found = training(lambda shape, M, pass_: gain(planted_gain), noise=0.001, keep=small)
    found.rounds["head_s"] *= np.exp(drift[found.rounds["round"]])
    report = report_of(found)
    every = tables(report)
    suite = every["compared-means"].rows[0]
    shown = [suite[3]] + [row[5] for row in every["compared-by-model"].rows]
    assert [cell.text.startswith("~") for cell in shown] == [not proven] * len(shown)
    assert [cell.tone is Tone.UNDECIDED for cell in shown] == [not proven] * len(shown)
    card = cards(report)["Change of time, fwd+bwd"]
    assert card.text.startswith("~") != proven
    assert card.detail.startswith("unproven, ") != proven
    assert ("(~" in digest_of(report)) != proven
    assert ("nothing is proven" in every["compared-means"].how_to_read) != proven


def test_the_slowest_twenty_lead_and_all_cases_stand_in_their_chapter():
    report = report_of(training(lambda shape, M, pass_: gain((M % 7 - 3) / 20 - 0.01), noise=0.001))
    first = next(block for block in report.sections[0].blocks if isinstance(block, Table))
    whole = tables(report)["compared-cases"]
    assert (len(first.rows), len(whole.rows)) == (20, 252)  # 84 problems: two passes and their sum
    assert first.rows == whole.rows[:20]
    assert not first.detail
    assert whole.detail
    changes = [row[texts(whole)[0].index("change of time")].value for row in whole.rows]
    assert changes == sorted(changes, reverse=True)
    opened = unfolded(markdown.render(report).text)
    (rule,) = (number for number, line in enumerate(opened) if line.startswith("|:--"))
    assert any(line.startswith("- Slower, verified: ") for line in opened[:rule])  # the verdict comes first
    assert sum(line.startswith("| ") for line in opened) == 1 + 20


def test_titles_of_lists_follow_from_their_rows():
    every = tables(report_of(training(lambda *_: gain(-0.1), noise=0.001, keep=small)))
    assert not {"compared-movers", "compared-least"} & {*every}

    def one_loses(shape, M, pass_):
        return gain(-0.2 if (shape.model, shape.N, M) == ("Mistral-7B", 4096, 4096) else 0.1)

    mixed = tables(report_of(training(one_loses, noise=0.001, keep=small)))
    assert "compared-least" not in mixed
    assert [row[-1].text for row in mixed["compared-regressions"].rows] == ["fwd+bwd, fwd, bwd"] * 2
    header = texts(mixed["compared-movers"])[0]
    column = header.index("change, fwd+bwd")
    assert all(row[column].value < 0 for row in mixed["compared-movers"].rows)


def test_a_row_of_the_movers_is_of_the_pass_that_ranks_its_own_group():
    """One provider is measured in both passes, and ranked by their sum; the other in fwd alone."""
    both = training(lambda shape, M, pass_: gain(-0.2 if pass_ == "fwd" else 1.0), rounds=8, noise=1e-4)
    one = both.cases["pass"] == "fwd"
    more = both.rounds[both.rounds["case"].map(one)].assign(case=lambda rows: rows["case"] + len(one))
    cases = pd.concat([both.cases, both.cases.assign(provider="one")], ignore_index=True)
    found = type(both)(cases, pd.concat([both.rounds, more], ignore_index=True), both.order)
    found.cases.loc[found.cases.index[len(one) :][~one], "head_verdict"] = "oom"
    every = tables(report_of(found))
    for name, pass_, verdict in (("compared-movers", "fwd+bwd", "faster"), ("compared-regressions", "fwd", "slower")):
        header, *lines = texts(every[name])
        for line in lines:
            row = dict(zip(header, line, strict=True))
            assert (row["pass"], row["verdict"]) == (pass_, verdict)
            assert row[f"change, {pass_}"].startswith("+" if verdict == "slower" else "−")


def test_without_a_verdict_the_reason_leads_and_no_number():
    def first_card(result):
        return next(iter(cards(build_comparison(result)).values()))

    found = result_of(training(lambda *_: gain(-0.2), rounds=1, noise=0.0, keep=small))
    card = first_card(found)
    assert (card.label, card.text) == ("No result", "no case has a time in two rounds of both versions")
    assert card.text == found.no_result
    assert "+25" in card.detail  # what was seen stands below it
    withheld = replace(result_of(training(lambda *_: gain(-0.2), keep=small)), withheld="the device changed")
    assert first_card(withheld).text == "the device changed"
    checklist = build_comparison(withheld).sections
    (items,) = [block.items for part in checklist if part.id == "compared-open-items" for block in part.blocks]
    assert not [item for item in items if "rounds" in item and "inconclusive" in item]
    assert result_of(training(exactly, keep=small)).no_result == ""
    broken = result_of(training(exactly, head_verdict="oom", head_reason="out of memory", keep=small))
    assert first_card(broken).text == "nothing was compared, out of memory"

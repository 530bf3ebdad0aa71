"""Every rule on random tables: it finds its planted fault, and no rule finds anything in tables that hold."""

from collections import Counter

import numpy as np
import pytest
from rooflens.analysis.imports.text import tables_in
from rooflens.plugins.audit.audit import audit
from rooflens.plugins.audit.rules.registry import RULES

from .honest import HONEST
from .planted import SCENARIOS


@pytest.fixture(params=(60, pytest.param(300, marks=pytest.mark.slow)))
def tables(request):
    """How many tables are drawn."""
    return request.param


FOUND = 0.98
"""Share of the faults that must be found."""

FALSE_ALARMS = 0.01


def run(planted):
    return audit(tables_in(planted.text.encode(), "planted"), planted.setting)


def draws(number, kind, tables):
    return (np.random.default_rng([number, kind, seed]) for seed in range(tables))


def test_every_rule_has_a_scenario():
    assert set(SCENARIOS) == {rule.name for rule in RULES}


@pytest.mark.parametrize("rule", SCENARIOS)
def test_planted_faults_are_found_at_their_row(rule, tables):
    number = list(SCENARIOS).index(rule)
    missed = []
    for rng in draws(number, 1, tables):
        planted = SCENARIOS[rule](rng, True)
        result = run(planted)
        hits = [finding for finding in result.findings if finding.rule == rule]
        if not any(not planted.rows or any(row in finding.row for row in planted.rows) for finding in hits):
            missed.append(planted.text)
    assert len(missed) <= (1 - FOUND) * tables, missed[0]


@pytest.mark.parametrize("rule", SCENARIOS)
def test_tables_that_hold_are_left_alone(rule, tables):
    number = list(SCENARIOS).index(rule)
    alarms: Counter[str] = Counter()
    rows = 0
    for rng in draws(number, 2, tables):
        result = run(SCENARIOS[rule](rng, False))
        rows += result.rows
        alarms.update({finding.rule for finding in result.findings})
    assert rows > tables  # they were read
    assert sum(alarms.values()) <= FALSE_ALARMS * tables, alarms


@pytest.mark.parametrize("kind", HONEST)
def test_texts_that_hold_are_left_alone(kind, tables):
    number = list(HONEST).index(kind)
    alarms: Counter[str] = Counter()
    for rng in draws(number, 3, tables):
        planted = HONEST[kind](rng)
        result = run(planted)
        assert result.rows >= 2
        alarms.update({finding.rule for finding in result.findings})
    assert sum(alarms.values()) <= FALSE_ALARMS * tables, alarms

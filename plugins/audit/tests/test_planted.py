"""Every rule on random tables: it finds its planted fault, and no rule finds anything in tables that hold."""

from collections import Counter
from functools import partial

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


HOLDING = {name: partial(scenario, fault=False) for name, scenario in SCENARIOS.items()} | HONEST
"""What draws tables without a fault."""


@pytest.mark.parametrize("kind", HOLDING)
def test_tables_and_texts_that_hold_are_left_alone(kind, tables):
    alarms: Counter[str] = Counter()
    for rng in draws([*HOLDING].index(kind), 2, tables):
        result = run(HOLDING[kind](rng))
        assert result.rows >= 2  # they were read
        alarms.update({finding.rule for finding in result.findings})
    assert sum(alarms.values()) <= FALSE_ALARMS * tables, alarms

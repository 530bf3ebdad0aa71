"""Every rule on random tables: it finds its planted fault, and no rule finds anything in tables that hold."""

from collections import Counter

import numpy as np
import pytest
from rooflens.analysis.audit.audit import audit
from rooflens.analysis.audit.document import read_document
from rooflens.analysis.audit.rules import RULES

from .honest import HONEST
from .planted import SCENARIOS

TABLES = 300

LEAST = {"below-resolution": 0.90}
"""Share of the faults that must be found; 0.98 where nothing is said.

Changes that were computed from rounded times cannot be told from others where rounding hardly changes them.
"""

FALSE_ALARMS = 0.01


def run(planted):
    return audit([read_document(planted.text.encode(), "planted")], planted.setting)


def seeds(number, kind):
    return (np.random.default_rng([number, kind, seed]) for seed in range(TABLES))


def test_every_rule_has_a_scenario():
    assert set(SCENARIOS) == {rule.name for rule in RULES}


@pytest.mark.parametrize("rule", SCENARIOS)
def test_planted_faults_are_found_at_their_row(rule):
    number = list(SCENARIOS).index(rule)
    missed = []
    for rng in seeds(number, 1):
        planted = SCENARIOS[rule](rng, True)
        result = run(planted)
        hits = [finding for finding in result.findings if finding.rule == rule]
        if not any(not planted.rows or any(row in finding.row for row in planted.rows) for finding in hits):
            missed.append(planted.text)
    assert len(missed) <= (1 - LEAST.get(rule, 0.98)) * TABLES, missed[0]


@pytest.mark.parametrize("rule", SCENARIOS)
def test_tables_that_hold_are_left_alone(rule):
    number = list(SCENARIOS).index(rule)
    alarms: Counter[str] = Counter()
    rows = 0
    for rng in seeds(number, 2):
        result = run(SCENARIOS[rule](rng, False))
        rows += result.rows
        alarms.update({finding.rule for finding in result.findings})
    assert rows > TABLES  # they were read
    assert sum(alarms.values()) <= FALSE_ALARMS * TABLES, alarms


@pytest.mark.parametrize("kind", HONEST)
def test_texts_that_hold_are_left_alone(kind):
    number = list(HONEST).index(kind)
    alarms: Counter[str] = Counter()
    for rng in seeds(number, 3):
        planted = HONEST[kind](rng)
        result = run(planted)
        assert result.rows >= 2
        alarms.update({finding.rule for finding in result.findings})
    assert sum(alarms.values()) <= FALSE_ALARMS * TABLES, alarms

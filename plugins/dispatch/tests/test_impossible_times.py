"""Impossible times decide nothing of dispatch either."""

from rooflens.plugins.dispatch.study import Question, study

from tests.analysis.impossible import planted_twice


def test_decisions(tmp_path):
    a, b = (study(run, Question()) for run in planted_twice(tmp_path))
    assert repr(a) == repr(b)

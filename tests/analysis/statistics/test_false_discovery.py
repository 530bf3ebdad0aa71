"""q values against scipy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.analysis.statistics.moderation import adjusted
from scipy.stats import false_discovery_control


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_q_values_are_those_of_scipy(p):
    assert adjusted(np.array(p)) == pytest.approx(false_discovery_control(p))


def test_unknown_tests_do_not_count():
    assert adjusted(np.array([0.01, np.nan, 0.5])) == pytest.approx([0.02, np.nan, 0.5], nan_ok=True)
    assert np.isnan(adjusted(np.array([np.nan]))).all()
    assert len(adjusted(np.array([]))) == 0

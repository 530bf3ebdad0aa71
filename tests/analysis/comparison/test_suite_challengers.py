"""Challengers of the suites that come with rooflens: what can head a report could be dispatched to."""

import pytest
from rooflens.analysis.frames.load import REFERENCE
from rooflens.kernels import registry
from rooflens.kernels.provider import Role
from rooflens.shapes import suite


@pytest.mark.parametrize("name", suite.names())
def test_no_suite_names_a_reference_or_its_baseline_as_a_challenger(name):
    loaded = suite.load(name)
    providers = registry.load(loaded.challengers)
    assert loaded.challengers
    assert loaded.baseline not in loaded.challengers
    assert not [provider for provider in providers.values() if provider.role == Role.REFERENCE]


def test_the_reference_role_is_that_of_the_providers():
    assert REFERENCE == Role.REFERENCE

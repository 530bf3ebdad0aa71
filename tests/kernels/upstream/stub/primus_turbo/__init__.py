"""Stands in for Primus-Turbo in the tests: the functions that rooflens calls, computed by torch."""

__version__ = "0.0+stub"

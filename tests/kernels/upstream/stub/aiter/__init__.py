"""Stands in for aiter in the tests: the entry points that rooflens calls, computed by torch."""

__version__ = "0.0+stub"

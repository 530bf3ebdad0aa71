"""Checks the numbers of a published table, which `analysis.imports` reads.

evidence   tables as they are understood, and what the rules look at
rules      the checks
audit      runs them: every `Finding` names its table, line and numbers
command    `rooflens audit`; `output`, what it prints
plugin     what this adds to rooflens
"""

"""Checks the numbers of a published table, in the forms in which people print one.

reading    from a text to tables whose columns are understood
evidence   what the rules look at
rules      the checks, one module each
audit      runs them: every `Finding` names its table, line and numbers
command    `rooflens audit`; `output`, what it prints
plugin     what this adds to rooflens
"""

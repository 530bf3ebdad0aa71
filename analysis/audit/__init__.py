"""Checks the numbers of a published table, in any of the forms in which people paste one.

reading    from a pasted text to tables whose columns are understood
evidence   what the rules look at
rules      the checks, one module each
audit      runs them: every `Finding` names its table, line and numbers
"""

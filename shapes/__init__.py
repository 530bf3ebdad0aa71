"""What to compute: problems, schemes, suites, devices, and the schema of everything that is stored.

The vocabulary of the whole project. Imports neither torch nor triton, so that planning, analysis and
reports work on a machine without a GPU stack.
"""

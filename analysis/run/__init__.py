"""The analysis of one run, whole.

summarize   raw samples to one row per cell
question    the baseline and challengers that are compared
pipeline    all steps, in order
coverage    how much of the plan has a time, and what to do about the rest
headline    how each challenger stands against the baseline, the one that wins most first
scan_check  what else changed along a scan
serving     rows of serving stacks' tables for the problems of a run
"""

"""The analysis of one run, whole.

summarize      raw samples to one row per cell
question       the baseline and challengers that are compared
pipeline       all steps, in order
headline       the three numbers at the top of a report, or why there are none
scan_check     what else changed along a scan
architectures  several runs side by side
serving        rows of serving stacks' tables for the problems of a run
"""

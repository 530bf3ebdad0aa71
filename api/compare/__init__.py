"""Two versions of the same kernels: commits that are measured in turn, stored runs, or tables of other tools.

comparing  `compare`, and two commits measured in turn, as `rooflens compare --git` does
stored     the folder of a comparison, two runs, or two tables; cases that chose other configurations, repeated
"""

"""Which kernel to run for which problem, what that decision costs, and code that makes it.

Everything is expressed as y = ln(t_arm / t_incumbent), paired by round: below 0 the arm is faster. Modules, from the
inside out:

`timings`     rounds of a run as one array over (GEMM, arm, round), with their weights
`weights`     how much each GEMM counts, from a histogram of M
`evidence`    which arms are proven faster than the incumbent by more than a margin
`policy`      policies as values: rows by M, for all shapes or for each; and what a policy chooses
`fit`         all policies of a run
`regret`      what a choice costs, in the sample and on rounds, shapes and models that the fit has not seen
`study`       all of it for one run, rules that providers bring along included; decisions that differ from a policy
`provenance`  what a decision rests on
`emit_*`      policies as files: CSV in aiter's shape, JSON, Python
`command`     `rooflens dispatch`, and `output`, what it prints
`plugin`      what this adds to rooflens
"""

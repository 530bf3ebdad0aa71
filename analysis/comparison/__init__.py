"""Two versions of the same kernels: effects per cell, verdicts with a margin, and what they mean for a suite.

An effect is d = ln(time of head) - ln(time of base): above 0 the head is slower. Modules, from the inside out:
`decide` (verdict of each cell), `effects` (stored rounds to effects), `suite` and `breakdown` (what a report prints),
`parts` (what a single number may cover), `result` (all of it).
Beside them: `identity`, `numbering` and `evidence` for reports, `unverified` for tables of one value per case,
`versions` for where versions come from (runs, imported tables), `attribution` for code against choice, `machine_code`
for what changed in it.
"""

"""One module per rule.

registry        all rules, in the order of a report, and what a table has of their needs
zeros           0 where nothing was measured
roof            faster than the device
peak_share      percent of a peak that the device does not have
ratios          ratios that their numbers do not give
repeats         rows twice
pattern         a number that breaks the pattern of its column
"""

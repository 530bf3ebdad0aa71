"""One module per rule.

registry        all rules, in the order of a report
roof            faster than the device
peak_share      percent of a peak that the device does not have
slow            milliseconds that were microseconds
floor           launches, not work
ratios          ratios that their numbers do not give
rounding        changes within rounding
changes_stated  changes that contradict each other
parts           a part longer than its whole
repeats         rows twice
counts          counts that the rows contradict
experts         FLOPs counted once per expert
winner          columns that name the wrong best
order           quantiles of a row that do not ascend
pattern         a number that breaks the pattern of its row and column
"""

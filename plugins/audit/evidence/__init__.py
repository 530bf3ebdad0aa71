"""What the rules look at.

sheet       a table whose columns are understood, with the problem and device of each row
roles       what a table as a whole adds to its columns
assumptions device, dtype and operation that it is held against
rule        what a rule is
finding     what a rule reports, and what it needs
pairs       the two sides of a ratio
baseline    ratios to a row of the table
changes     columns of percentages
rates       FLOP counts from rates, times and sizes
"""

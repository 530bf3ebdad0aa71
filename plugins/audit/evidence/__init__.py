"""What the rules look at.

context   all tables and claims of a document
finding   what a rule reports
pairs     the two sides of a ratio
baseline  ratios to a row of the table
changes   columns of percentages
rates     FLOP counts from rates, times and sizes
structure how regular the numbers of a table are
"""

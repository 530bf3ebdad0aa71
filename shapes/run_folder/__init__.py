"""What a run folder contains.

columns      every column of every table
columns_isa  those of isa.csv
manifest     the keys of run.json
disturbance  the text of `disturbed`
"""

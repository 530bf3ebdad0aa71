"""What a run folder contains.

columns      every column of every table
columns_isa  those of isa.csv
columns_computed  those that are computed when a run is read
coverage     how much of a run has a time
manifest     run.json and its neighbours: names of files, and what they say
disturbance  what disturbed a measurement, and the text of `disturbed`
retries      what was measured again after a failure
"""

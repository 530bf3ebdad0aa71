"""`rooflens report`.

report             the command
stored_comparison  two runs, two tables, or the folder of a comparison
replay             cases that chose other configurations, repeated
"""

"""`rooflens report`.

report             the command
architectures      several architectures side by side
stored_comparison  two runs, two tables, or the folder of a comparison
replay             cases that chose other configurations, repeated
"""

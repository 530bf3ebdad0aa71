"""One suite over many runs.

history    the trend of each cell
proposals  changes of level, and what speaks for the code as their cause
run_story  what one run contributes
"""

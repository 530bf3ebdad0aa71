"""One suite over many runs.

run_story  what one run contributes
history    the trend of each cell, and changes of level with what points to the code as their cause
"""

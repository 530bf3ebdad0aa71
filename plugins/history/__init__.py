"""One suite over many runs.

run_story  what one run contributes
history    the trend of each cell, and changes of level with what points to the code as their cause
deciding   the command that decides a proposed change
trends     the pages of `--html`
command    `rooflens history`; `output`, what it prints; `terms`, its words
plugin     what this adds to rooflens
"""

"""One suite over many runs.

run_story  what one run contributes
history    the trend of each cell, and changes of level with what points to the code as their cause
deciding   the command that decides a proposed change
chapters   series and changes, as a terminal and the page show them
page       the page of `--html`: a panel per cell and the runs, besides these chapters
command    `rooflens history`
plugin     what this adds to rooflens
"""

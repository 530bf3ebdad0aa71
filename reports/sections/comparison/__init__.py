"""Two versions.

suite        as a whole
takeaways    in sentences
models       by model
cases        case by case
movers       what moved, and where head is slower
open_points  outputs that were checked, known limitations, open items, arithmetic means
spread       how changes are distributed
cost         tuning and compiled code
tried        what was measured again, added and searched
origin       commits, files, runs
dumbbell     before and after
words        what these chapters share
"""

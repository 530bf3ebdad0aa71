"""Two versions.

suite        as a whole, and by model
takeaways    in sentences
cases        case by case
movers       what moved
open_points  where head is slower, outputs that were checked, known limitations, open items, arithmetic means
spread       how changes are distributed
cost         tuning and compiled code; what was measured again, added and searched
origin       commits, files, runs
dumbbell     before and after
words        what these chapters share
"""

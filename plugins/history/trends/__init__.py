"""The pages of many runs.

subject  a family on a device: what these chapters share
index    a row for each, and the runs
changes  changes of level, each with the commits between and the command that decides it
pages    lays them out
panels   every cell over the runs
"""

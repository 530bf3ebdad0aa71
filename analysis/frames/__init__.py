"""From files to frames: what every other analysis starts from.

load         reads a run folder
tables       reads one table against its schema
coordinates  the columns that identify a cell
deciding     the times that may decide something
speedup      ratios to a baseline, paired by round
notes        remarks on how a cell was measured
telemetry    what the device reported, per run and per cell
"""

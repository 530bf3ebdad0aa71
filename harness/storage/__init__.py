"""The run folder, on the disk.

store            run.json and the tables, written so that a kill costs one unit at most
tables           rows as CSV: appended, replaced, synced
worker_log       what workers print, within bounds
recovery         cuts off what an interrupted writer left
lock             one writer, or many readers
manifest         device, software and code in run.json: a run does not mix two of any, and joins those of several
shards           a run folder as a merge reads it
merge            joins shards into a run
merge_conflicts  why they cannot be joined
scratch          private temporary folders, removed by their owner alone
"""

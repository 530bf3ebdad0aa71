"""Nothing that a provider does reaches the next one, or outlives the run.

settings       all state of the process that a provider can change
process_state  restores it around every call of a provider
faults         what an exception means: a verdict, a reason, and whether the worker can go on
child          a process that dies with its parent and prints to a log
descendants    finds and ends every process that a worker started
build_locks    locks that killed builds leave behind
"""

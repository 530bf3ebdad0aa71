"""Nothing that a provider does affects the next one, or outlives the run.

settings       what any code in the process can change: read, compared, and some of it restored
process_state  does that around every call of a provider, and checks its threads and processes
faults         what an exception means: a verdict, a reason, and whether the worker can continue
child          a process that dies with its parent and prints to a log
descendants    finds and ends every process that a worker started
build_locks    locks that killed builds leave behind
"""

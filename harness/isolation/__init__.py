"""Nothing that a provider does affects the next one, or outlives the run.

setting           one setting of the process that any code can change
torch_settings    those of torch and the GPU
process_settings  those of Python and the process
process_state     restores them around every call of a provider
faults            what an exception means: a verdict, a reason, and whether the worker can continue
child             a process that dies with its parent and prints to a log
descendants       finds and ends every process that a worker started
build_locks       locks that killed builds leave behind
"""

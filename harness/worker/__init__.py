"""The child process that owns the device.

worker            its loop: takes tasks, sends rows
messages          what parent and worker send each other
wire              how: as JSON, through a pipe
worker_info       what a worker reports before its first task: can this run compare anything?
bench             how a cell is timed and checked
task_progress     what of a task is done and in flight
operands          operands of a problem, with copies for rotation
signatures        whether tensors have changed
prepared          a provider made ready for a cell
geometry          how a launch divides its work
watch             checks that timed launches do their work
agreement         compares what functions of the user compute with their baseline
configurations    which configuration a cell runs
search            finds the fastest configuration: knows no device
error_ratio       how much of an output aiter's tuners would reject
code_origin       refuses code from outside the checkout that is measured
"""

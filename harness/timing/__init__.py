"""How one launch is timed, on a GPU or a CPU.

timer           the interface of a timer, and the subject that it times
timers          the timers by name
samples         what a timer measured, and what is stored of it
profiler_timer  what the device recorded of a launch: the default on a GPU
event_timer     device events around a launch
graph_timer     many launches in one graph, between two events
host_timer      the wall clock: the only timer of the CPU
accelerator     the device as the timers see it: clock, events, graphs, traces
cache           warm or cold caches before a sample
cache_sizes     how many bytes make a sample cold
stop            when there are enough samples
measure         warm up, then sample until the stop rule ends it
canary          a frozen GEMM and copy: when they slow down, the device has
"""

"""Builds of kernels, and what follows from one.

aot_compiler              compile ahead of time, in a child process; `compile_all`, many, and keeps them
scan                      the kernels of a suite, as they would be launched
binary                    machine code of a build; `sass` and `gcn` read it into `code`, `loops` finds the main loop
occupancy                 workgroups that a compute unit holds
account                   registers, memory instructions, and what decoding a weight takes; `integer_rate` its units
schedule                  clocks of a workgroup
launched                  the same of a launch on this machine
"""

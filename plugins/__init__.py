"""Parts that rooflens works without: each folder here can be deleted, and its commands and chapters are gone.

A folder says in its module `plugin` what it adds (`shapes/plugins.py`), imports public names of any other folder, and
holds its own page, README.md, and its own tests.

audit     checks the numbers of a published table
camping   finds sizes at which memory stalls
dispatch  says which kernel to run for which problem
fleet     measures on many devices and machines
history   shows one suite over many runs
isa       compiles kernels for other GPUs, and reads what the compiler made of a launched one
"""

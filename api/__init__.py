"""The Python API: measure suites and calls, read and report stored runs, assert on times in pytest.

bench          `bench`, `do_bench`: the time of a call, or of several against a baseline
bench_file     the functions of a Python file
times          what timing calls gives
sampling       rounds of samples of calls in this process
measuring      `measure`, `tune`: a suite, as `rooflens run` and `rooflens tune` measure and search it
planned        what a request comes to before anything is measured: cells, folder, run.json
forecast       what a planned run will take
selection      the suite and providers that a request selects
refine         further M around a crossover
progress       what a measurement shows meanwhile: a bar, or lines
outcome        what became of a run, without an analysis
stored_run     `load`: a run folder as frames, and in a notebook
reporting      `report`: the report of a run, or of two versions, in files
run_folders    where runs are, which one is meant, whose they are, and how to resume them
stopping       Ctrl-C as a request to stop
failures       errors as one line and an exit code
baselines      timings that tests compare with, as files
pytest_plugin  the fixture `rooflens`
"""

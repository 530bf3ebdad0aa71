"""The Python API: measure and compare callables, read stored runs, assert on times in pytest.

timing         `bench`: the time of a call, and what it means
comparison     `compare`: calls against a baseline, in interleaved rounds
sampling       rounds of samples of calls in this process: what both measure with
estimates      what samples of rounds say of a time
measuring      `measure`: a suite, as `rooflens run` measures it
tuning         `tune`: the configurations of a suite
planned        what a request comes to before anything is measured: cells, folder, run.json
selection      the suite and providers that a request selects
scan, refine   cells that follow from others: variants of a shape, further M around a crossover
stored_run     `load`: a run folder as frames, and in a notebook
run_folders    where runs are, whose they are, and how to resume them
baselines      timings that tests compare with, as files
pytest_plugin  the fixture `rooflens`
"""

"""The Python API: measure and compare callables, read stored runs, assert on times in pytest.

timing         `bench`: the time of a call, and what it means
comparison     `compare`: calls against a baseline, in interleaved rounds
sampling       rounds of samples of calls in this process: what both measure with
estimates      what samples of rounds say of a time
stored_run     `load`: a run folder as frames, and in a notebook
baselines      timings that tests compare with, as files
pytest_plugin  the fixture `rooflens`
"""

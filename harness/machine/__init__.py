"""What this machine is, and what to fix before its numbers can be trusted.

device         finds and describes the device
environment    what is needed to repeat a run
software       versions and compilers
survey         everything that `rooflens doctor` looks at
advice         the rules over a survey
advice_device  rules about the device
advice_host    rules about the host
advice_values  the type of a finding
"""

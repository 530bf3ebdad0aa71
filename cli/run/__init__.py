"""`rooflens run`.

run                 the command
run_request         from options to cells and a folder
selection           options that `run` and `tune` share
scan                --scan
refine              --refine
dry_run             --dry-run
contention_monitor  progress, and who else is at work
end_of_run          what is printed at the end: headline, summary, notes
final_table         geometric means
"""

"""`rooflens run`, on one device or with `--jobs` on many.

run                 the command
run_request         from options to cells and a folder
selection           options that `run` and `tune` share
scan                --scan
refine              --refine
dry_run             --dry-run
contention_monitor  progress, and who else is at work
best_ratio          the best ratio so far, of times that the device allows
end_of_run          what is printed at the end: headline, summary, notes
final_table         geometric means
fleet_run           the same on many devices
fleet_folder        its folder
fleet_progress      its progress
"""

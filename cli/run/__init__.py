"""`rooflens run`.

run                 the command
dry_run             --dry-run
contention_monitor  progress, and who else is at work
end_of_run          what is printed at the end: headline, summary, notes
final_table         geometric means
"""

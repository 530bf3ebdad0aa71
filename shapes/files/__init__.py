"""Readers for files that may be damaged or hostile: a value, or one line that says why not.

file_text    limits that all have
json_file    JSON
record       JSON objects as dataclasses: read, checked, written, documented
toml_file    TOML
csv_file     CSV, read and written
stored_file  files of run folders
"""

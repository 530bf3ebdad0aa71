"""`rooflens list`.

list          the command
availability  which providers can run here
columns_page  generates docs/columns.md
"""

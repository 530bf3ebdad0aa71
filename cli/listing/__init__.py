"""`rooflens list`.

list           the command
availability   which providers can run here
device_tables  device tables, checked
columns_page   generates docs/columns.md
"""

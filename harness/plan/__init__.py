"""What is to be measured, before anything is.

plan         from a suite to ordered cells
extra_cells  more M for the same shapes; the variants of a scan
cost         how long it will take
"""

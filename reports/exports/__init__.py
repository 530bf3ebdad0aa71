"""The times of a run in the formats of other tools: unlike a report, nothing but measured cells.

formats  the registry of these formats
aiter    aiter's tuned GEMM tables
parquet  a table of all cells
"""

"""The times of a run in the formats of other tools: unlike a report, nothing but measured cells.

formats           the registry of these formats
measured          the cells that are exported, and their names
github_benchmark  github-action-benchmark
bencher           Bencher Metric Format
pytorch           the benchmark database of PyTorch
aiter             aiter's tuned GEMM tables
parquet           a table of all cells
"""
